"""Scenarios drawn from any federation: the same for the same seed, sound, and work that can be done."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pilotage.cli.app import app
from pilotage.federation.documents import write
from pilotage.model.records.federation import ComputingElement, Federation, GlobalShare, Link, Site
from pilotage.simulation.drawing import TooFewQueues, drawn
from pilotage.simulation.reading import Case, read, virtual
from pilotage.simulation.submissions import submissions
from pilotage.simulation.trials import run
from pilotage.testing import federation, queue


def element(**declared: Any) -> ComputingElement:
    return ComputingElement(kind="arc", **{"max_pilots": 10_000, **declared})


def declared(count: int = 12, **attributes: Any) -> Federation:
    """Queues as a factory's: two VOs, pilots of one core and of eight, two queues a site."""
    made = []
    for number in range(count):
        own: dict[str, Any] = {
            "vos": ("DUNE", "VIRGO") if number % 3 else ("DUNE",),
            "cores": 8 if number % 2 else 1,
            "max_memory": 16_000,
            "max_walltime": 172_800,
            "computing_element": element(),
        }
        made.append(queue(f"Q{number}", f"SITE{number // 2}", **(own | attributes)))
    return federation(made)


def draw(tmp_path: Path, of: Federation, *options: str) -> Any:
    (tmp_path / "imported.yaml").write_text(write(of))
    words = ["draw-scenario", str(tmp_path / "imported.yaml"), "--output", str(tmp_path / "drawn"), *options]
    return CliRunner().invoke(app, words)


def files(tmp_path: Path) -> list[str]:
    return [(tmp_path / "drawn" / name).read_text() for name in ("federation.yaml", "scenario.yaml")]


def test_the_same_seed_draws_the_same_files_and_another_seed_others(tmp_path: Path) -> None:
    found = []
    for seed in ("1", "1", "2"):
        told = draw(tmp_path, declared(), "--queues", "6", "--seed", seed)
        assert told.exit_code == 0, told.output
        found.append(files(tmp_path))
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_a_drawn_scenario_is_simulated_and_all_of_its_work_is_done(tmp_path: Path) -> None:
    told = draw(tmp_path, declared(), "--queues", "4", "--json")
    numbers = json.loads(told.stdout)
    assert (numbers["queues"], numbers["fitting"], numbers["left_out"]) == (4, 12, {})
    case = read(tmp_path / "drawn" / "scenario.yaml")
    assert numbers["output"] == str(tmp_path / "drawn" / "scenario.yaml")
    assert {user.vo for user in work_of(case).users} == {"DUNE", "VIRGO"}
    assert all(storage.remote_reads for storage in case.federation.storages)
    finishes(case, "early", "elastic")


def work_of(case: Case) -> Any:
    assert case.scenario.generated is not None
    return case.scenario.generated


def finishes(case: Case, *policies: str) -> None:
    """Simulate a few small tasks."""
    work = replace(work_of(case), tasks=2, jobs=4)
    small = replace(case, scenario=replace(case.scenario, generated=work, tick=600))
    for policy in policies:
        found = run(small, policy, 1, submissions(small, 1))
        assert found.unended.states == {}, (policy, str(found.unended))
        assert (found.metrics.lost, found.metrics.unfinished) == (0, 0)
        assert found.metrics.jobs > 0


def test_what_a_federation_says_is_kept_and_what_it_does_not_say_is_drawn_within_its_limits() -> None:
    of = declared(30, core_power=13.0, computing_element=element(max_pilots=3))
    found = drawn(replace(of, links=(Link(source="SITE1", destination="SITE2", throughput_1d=7),)), 30, 5)
    for one, before in zip(found.federation.queues, of.queues, strict=True):
        own = one.computing_element
        assert own is not None
        assert (one.name, one.vos, one.core_power) == (before.name, before.vos, 13.0)
        assert own.pilot_slots == before.cores
        assert own.max_pilots <= 3
        assert one.max_memory == before.max_memory / before.cores
    rates = {(link.source, link.destination): link.throughput_1h for link in found.federation.links}
    assert rates["SITE1", "SITE2"] == 7
    assert len(rates) == 15 * 14
    assert len(set(rates.values())) > 10
    assert len({site.wait for site in found.scenario.sites.values()}) > 10
    busy = sum(bool(site.busy) for site in found.scenario.sites.values())
    assert 0 < busy < 15


@pytest.mark.parametrize(
    "attributes",
    [
        {"cores": 0},
        {"cores": 96},
        {"cores": 100_000},
        {"computing_element": element(max_pilots=1)},
        {"computing_element": element(pilot_slots=500)},
        {"computing_element": element(pilot_walltime=0)},
        {"computing_element": element(pilot_walltime=0), "max_walltime": 0},
        {"computing_element": None},
        {"max_workdir": 8 * 1600, "cores": 8},
        {"max_walltime": 0},
        {"core_power": 400.0},
        {"min_memory": 4000.0, "max_memory": 4000.0},
        {"transferring_limit": 0, "num_slots": 0},
        {"status": "standby"},
        {"vos": ("V" * 200,)},
        {"vos": ()},
    ],
    ids=str,
)
def test_odd_limits_of_queues_leave_a_scenario_whose_work_is_done(attributes: Mapping[str, Any]) -> None:
    finishes(drawn_case(declared(8, **attributes)), "elastic")


def drawn_case(of: Federation) -> Case:
    found = drawn(of, 4, 1)
    return Case(found.scenario, virtual(found.federation, found.scenario))


@pytest.mark.parametrize(
    "parts",
    [
        {"shares": (GlobalShare(name="of-dune", vo="DUNE"),)},
        {"plugins": {"DUNE": "matchmaking"}},
        {"sites": "closed"},
        {"storages": "tape"},
        {"links": "blocked"},
        {"timeouts": "short"},
        {"quotas": "none"},
        {"nqueue": "of-dune"},
    ],
    ids=str,
)
def test_odd_federations_leave_a_scenario_whose_work_is_done(parts: Mapping[str, Any]) -> None:
    of = declared(8)
    (name, value), *_ = parts.items()
    if value == "closed":
        sites = (replace(site, max_jobs=0, requirements="false") for site in of.sites)
        changed = replace(of, sites=tuple(sites))
    elif value == "tape":
        storages = (replace(one, tape=True, free=0, blacklisted=("read_wan",)) for one in of.storages)
        changed = replace(of, storages=tuple(replace(one, folders={"a": ("x",)}) for one in storages))
    elif value == "blocked":
        ends = [site.name for site in of.sites]
        links = (Link(source=one, destination=to, closeness=-1) for one in ends for to in ends if one != to)
        changed = replace(of, links=tuple(links))
    elif value == "short":
        changed = replace(
            of, timeouts=replace(of.timeouts, heartbeat=90), loops=replace(of.loops, heartbeat=10)
        )
    elif value == "none":
        changed = replace(of, quotas=replace(of.quotas, jobs_by_user=1))
    elif name == "nqueue":
        brokerage = replace(of.brokerage, nqueue_limit_site_by_share={"of-dune": 1})
        changed = replace(of, brokerage=brokerage, shares=(GlobalShare(name="of-dune"),))
    else:
        changed = replace(of, **{name: value})
    finishes(drawn_case(changed), "elastic")


def test_queues_that_do_not_take_the_work_are_left_out_and_counted_by_check(tmp_path: Path) -> None:
    of = declared()
    odd: dict[int, dict[str, Any]] = {
        0: {"status": "offline"},
        1: {"max_walltime": 600},
        2: {"name": "a-test-queue"},
        3: {"cores": 8},
    }
    odd[4] = {"event_service": "es"}
    changed = tuple(replace(one, **odd.get(at, {})) for at, one in enumerate(of.queues))
    told = draw(tmp_path, replace(of, queues=changed), "--queues", "9")
    assert told.exit_code == 2
    assert "9 queues are to be drawn, and 8 of the 12 queues of test take the work" in told.stderr
    assert "give --queues 8 or fewer" in told.stderr
    for check in ("B1 its name", "B4 status", "B21 walltime", "B23 event service"):
        assert f"1 by {check}" in told.stderr
    assert not (tmp_path / "drawn").exists()


def test_a_federation_none_of_whose_queues_takes_work_is_refused() -> None:
    with pytest.raises(TooFewQueues, match="0 of the 3 queues of test take the work"):
        drawn(declared(3, status="offline"), 1, 1)
    forwards = ComputingElement(kind="pilotage", options={"url": "http://127.0.0.1:1"})
    with pytest.raises(TooFewQueues, match="3 by M1 forwards"):
        drawn(declared(3, computing_element=forwards), 1, 1)


def test_what_cannot_be_read_or_written_is_said(tmp_path: Path) -> None:
    no_storage = write(declared(2)).replace("storages:", "storages: []\nothers:")
    (tmp_path / "none.yaml").write_text(no_storage)
    words = ["draw-scenario", str(tmp_path / "none.yaml"), "--output", str(tmp_path / "drawn")]
    told = CliRunner().invoke(app, words)
    assert (told.exit_code, "storages" in told.stderr) == (2, True), told.output
    (tmp_path / "drawn").write_text("a file")
    told = draw(tmp_path, declared(2), "--queues", "1")
    assert told.exit_code == 2
    assert "cannot be written" in told.stderr
    for wrong in ("0", "501"):
        assert draw(tmp_path, declared(2), "--queues", wrong).exit_code == 2


def test_sites_without_queues_go_and_storages_elsewhere_stay() -> None:
    of = declared(2)
    far = replace(of.storages[0], name="FAR-DISK", site="FAR")
    queues = tuple(replace(one, storage="FAR-DISK") for one in of.queues)
    changed = replace(of, sites=(*of.sites, Site(name="FAR")), storages=(*of.storages, far), queues=queues)
    found = drawn(changed, 2, 1).federation
    assert {site.name for site in found.sites} == {"SITE0", "FAR"}
    assert [storage.name for storage in found.storages] == ["FAR-DISK"]
