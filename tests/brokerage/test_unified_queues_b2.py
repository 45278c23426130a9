"""B2: a pseudo-queue has its unified queue's conditions, and shares its limits."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.federation.checks import federation_faults
from pilotage.flow.calls.work import what_if
from pilotage.flow.calls.work.what_if import Changes
from pilotage.model.circuit_breakers.jobs import job_breakers
from pilotage.model.documents.decision import Create, Move
from pilotage.model.documents.world import JobCount, TaskQueue
from pilotage.model.records.constants import TimeoutConstants
from pilotage.model.records.failures import Failure
from pilotage.model.records.federation import ComputingElement, Federation, Queue
from pilotage.model.records.unified_queues import conditioned
from pilotage.model.rules.rebrokerage import excess
from pilotage.policies.pilots import director
from pilotage.simulation.bounds import power
from pilotage.simulation.idleness import slots
from pilotage.simulation.reading import virtual
from pilotage.simulation.scenario import Scenario
from pilotage.testing import (
    HOUR,
    NOW,
    federation,
    jobs,
    jobs_at,
    pilot,
    queue,
    queue_report,
    requirements,
    task,
    world,
)
from pilotage.testing.choices import decide, refused_in

NO_ELEMENT: dict[str, Any] = {"computing_element": None}


def unified(children: dict[str, Any] | None = None, **attributes: Any) -> Federation:
    """Unified U with pseudo-queues S of one core and M of eight, and V that counts alone."""
    own = NO_ELEMENT | (children or {})
    queues = [
        queue("U", **attributes),
        queue("S", parent="U", **own),
        queue("M", parent="U", cores=8, **own),
        queue("V", site="AWAY"),
    ]
    return conditioned(federation(queues, constants={"nqueue_limit_site": 5}))


def by_name(of: Federation) -> dict[str, Queue]:
    return {one.name: one for one in of.queues}


@pytest.mark.parametrize(
    ("unified_is", "own", "seen"),
    [
        ("offline", "online", "offline"),
        ("paused", "online", "paused"),
        ("online", "offline", "offline"),
        ("draining", "brokeroff", "draining"),
        ("standby", "online", "standby"),
    ],
)
def test_b2_the_less_open_status_counts(unified_is: str, own: str, seen: str) -> None:
    house = unified({"status": own}, status=unified_is)
    assert {by_name(house)[name].status for name in ("S", "M")} == {seen}
    assert refused_in(world(house, task()), "B4") >= ({"S", "M"} if seen != "standby" else set())
    assert by_name(house)["V"].status == "online"


def test_b2_a_pseudo_queue_without_a_computing_element_gets_pilots_by_its_unified_queue() -> None:
    house = unified(max_pilots=4)
    waiting = (TaskQueue(queue="S", requirements=requirements(), jobs=9, priority=500),)
    (made,) = (
        one
        for one in director.provision(world(federation=house, task_queues=waiting)).changes
        if isinstance(one, Create)
    )
    assert [record.queue for record in made.records if hasattr(record, "queue")] == ["S"] * 4


def test_b2_max_pilots_bounds_the_pseudo_queues_together_and_so_do_the_claims() -> None:
    house = unified({"computing_element": ComputingElement(max_pilots=8)}, max_pilots=10)
    lines = tuple(
        TaskQueue(queue=name, requirements=requirements(cores=cores), jobs=50, priority=500)
        for name, cores in (("S", 1), ("M", 8))
    )
    decision = director.provision(world(federation=house, task_queues=lines, pilots=(pilot(1, queue="M"),)))
    made = [one for one in decision.changes if isinstance(one, Create)]
    assert sum(len(one.records) for one in made) == 9
    for one in made:
        together = {(claim.key, *claim.others): claim.limit for claim in one.claims}
        assert together[("M",), ("S",), ("U",)] == 10
        assert 8 in together.values()


def test_b2_pilots_seen_anywhere_are_pilots_of_all() -> None:
    house = unified(**NO_ELEMENT)
    assert refused_in(world(house, task()), "B26") == {"U", "S", "M"}
    seen = (queue_report("M", last_pilot=NOW - 60),)
    assert refused_in(world(house, task(), queue_reports=seen), "B26") == set()
    late = (queue_report("M", last_pilot=NOW - 4 * HOUR),)
    assert refused_in(world(house, task(), queue_reports=late), "B26") == {"U", "S", "M"}


@pytest.mark.parametrize("jobs", [5, 6])
def test_b2_transferring_jobs_count_together(jobs: int) -> None:
    house = unified(transferring_limit=5)
    counts = (*jobs_at("S", transferring=3), *jobs_at("M", transferring=jobs - 3))
    told = refused_in(world(house, task(), job_counts=counts), "B24")
    assert told == ({"U", "S", "M"} if jobs > 5 else set())


def test_b2_disk_io_is_the_mean_of_all_that_run() -> None:
    house = unified(max_disk_io=100)
    counts = (*jobs_at("S", running=3), *jobs_at("M", running=1))
    reports = (queue_report("S", disk_io=20.0), queue_report("M", disk_io=400.0))
    full = world(house, task(disk_io=900), job_counts=counts, queue_reports=reports)
    assert refused_in(full, "B12") == {"U", "S", "M"}
    less = replace(full, queue_reports=(reports[0], queue_report("M", disk_io=300.0)))
    assert refused_in(less, "B12") == set(), "the mean over four jobs is 90"


@pytest.mark.parametrize("waiting", [5, 6])
def test_b2_waiting_jobs_count_together(waiting: int) -> None:
    house = unified(**NO_ELEMENT)
    counts = (*jobs_at("S", activated=2), *jobs_at("M", activated=waiting - 2))
    seen = (queue_report("S", last_pilot=NOW),)
    told = refused_in(world(house, task(), job_counts=counts, queue_reports=seen), "B36")
    assert told == ({"U", "S", "M"} if waiting > 5 else set())


def test_b2_jobs_of_one_cycle_fill_the_pseudo_queues_together() -> None:
    house = federation(
        [queue("U", **NO_ELEMENT), *(queue(f"U-{n}", parent="U", **NO_ELEMENT) for n in range(3))],
        constants={"nqueue_limit_site": 5},
    )
    many, few = task(1, queues=("U",)), [task(id_, queues=("U",)) for id_ in range(2, 12)]
    for asked in ([many], few):
        work = [job for one in asked for job in jobs(one, 30 if one is many else 1, first=100 * one.id)]
        seen = (queue_report("U-0", last_pilot=NOW),)
        decision = decide(world(house, *asked, jobs=work, queue_reports=seen))
        placed = [one for one in decision.changes if isinstance(one, Move) and one.claims]
        assert sum(len(one.ids) for one in placed) in (5, 6)
        for one in placed:
            (claim,) = one.claims
            assert {key[0] for key in (claim.key, *claim.others)} == {"U", "U-0", "U-1", "U-2"}


def test_b2_declared_slots_are_shared() -> None:
    house = unified(num_slots=100)
    counts = jobs_at("S", running=1, activated=200)
    asked = world(house, task(cores=8), job_counts=counts)
    assert refused_in(asked, "B36") == set(), "200 of 200"
    assert "M" in refused_in(replace(asked, job_counts=(*counts, *jobs_at("M", activated=1))), "B36")


def test_b2_a_breaker_closes_all_pseudo_queues() -> None:
    house = unified()
    failures = [
        Failure(
            job=n,
            attempt=1,
            task=1,
            owner="a",
            vo="v",
            queue="S",
            node="N",
            pilot=n,
            pilots=1,
            lasted=1,
            time=NOW - 100 + n,
            at_queue="place",
        )
        for n in range(5)
    ]
    assert {one.place[0] for one in job_breakers(failures, house)} == {"U", "S", "M"}


def test_b2_fast_rebrokerage_counts_them_together() -> None:
    house = replace(unified(), timeouts=TimeoutConstants(fast_rebro_threshold_nqueue={"default": 10}))
    counts: tuple[JobCount, ...] = (
        *jobs_at("S", activated=8, running=1),
        *jobs_at("M", activated=8, running=1),
    )
    assert excess(house, counts) == {("M", "default"): 6}


def test_b2_what_if_the_unified_queue_were_open() -> None:
    house = unified({"status": "online"}, status="offline")
    asked = world(house, task(cores=1))
    opened = what_if.decide(asked, Changes(queues={"U": {"status": "online"}})).opened
    assert opened == ("S",)
    assert what_if.decide(asked, Changes(queues={"S": {"status": "standby"}})).opened == ()


def test_b2_a_pseudo_queue_of_a_pseudo_queue_is_refused() -> None:
    house = federation([queue("U"), queue("S", parent="U"), queue("T", parent="S")])
    (fault,) = federation_faults(house)
    assert fault.path == ("queues", 2, "parent")
    assert fault.text == "S is a pseudo-queue of U itself; give U"


def test_b2_a_simulation_counts_shared_slots_once() -> None:
    scenario = Scenario(name="s", federation="f")
    house = virtual(unified(max_pilots=10), scenario)
    # Ten of eight cores at U, ten of one core at V, HS23 10 each.
    assert power(house, scenario, 1) == 10 * 8 * 10 + 10 * 10
    sites = {name: VirtualSiteSlots() for name in ("HOME", "AWAY")}
    slots(house, sites)  # type: ignore[arg-type]
    assert {name: site.most for name, site in sites.items()} == {"HOME": 10, "AWAY": 10}


class VirtualSiteSlots:
    """Takes down how many slots are looked at."""

    most = 0

    def slots(self, most: int) -> None:
        self.most = most
