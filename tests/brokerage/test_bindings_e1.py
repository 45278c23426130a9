"""Which candidates' pilots may take placed jobs, with the default binding and with others (E1, E3)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.records.borrowing import binding_of
from pilotage.model.records.constants import BindingConstants
from pilotage.model.records.federation import Federation, Link
from pilotage.model.records.spec import Binding, TaskSpec
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File
from pilotage.policies.brokerage.contract import violations
from pilotage.policies.brokerage.production import Production
from pilotage.testing import ALICE, federation, jobs, queue, queue_report, replica, task, world

READABLE: Mapping[str, Any] = {"remote_reads": True}


def house(rate: float | None = 50, of: Mapping[str, Any] = READABLE, **parts: Any) -> Federation:
    """Q at HOME, whose disk others may read; A over a link of a known rate, B not."""
    other = queue(**{"name": "A", "site": "A", **parts.pop("a", {})})
    queues = [queue(), other, queue("B", site="B")]
    links = [
        Link(source="HOME", destination=other.site, throughput_1h=rate),
        Link(source="HOME", destination="B"),
    ]
    return federation(queues, links=links, storages={"HOME": of}, **parts)


def placed(
    of: Federation,
    *held_at: str,
    plugin: Production | None = None,
    attempt: int = 1,
    count: int = 1,
    **spec: Any,
) -> Move:
    """The move of a task's jobs, with an input where replicas of it are named."""
    asked = task(1, **spec)
    inputs = ("f",) if held_at else ()
    state = world(
        of,
        asked,
        jobs=[replace(one, inputs=inputs, attempt=attempt) for one in jobs(asked, count)],
        files=[File(name=name, size=1_000_000, checksum="") for name in inputs],
        replicas=[replica("f", storage) for storage in held_at],
    )
    plugin = plugin or Production()
    assert violations(plugin, state) == []
    decision: Decision = plugin.decide(state)
    move = decision.moves[0]
    assert move.target in (JobState.ACTIVATED, JobState.ASSIGNED)
    return move


def test_e1_jobs_may_be_borrowed_by_all_candidates_unless_something_else_is_said() -> None:
    move = placed(house())
    assert (move.binding, move.takers) == ("elastic", None)
    assert placed(house(), binding="early").binding == "early"


def test_e3_candidates_that_could_not_read_the_input_are_no_takers() -> None:
    move = placed(house(), "HOME-DISK")
    assert (move.binding, move.takers) == ("elastic", ("A", "Q"))
    held = placed(house(of={}), "HOME-DISK", "B-DISK")
    assert (held.binding, held.takers) == ("elastic", ("B", "Q"))


@pytest.mark.parametrize(
    ("of", "rate"),
    [({}, 50), ({"remote_reads": True, "tape": True}, 50), (READABLE, None)],
    ids=["not to be read from afar", "on tape", "over a link that nobody measured"],
)
def test_e1_where_no_other_candidate_could_read_the_input_jobs_are_bound_early(
    of: Mapping[str, Any], rate: float | None
) -> None:
    move = placed(house(rate, of), "HOME-DISK", queues=("Q", "A", "B"))
    assert (move.binding, move.takers) == ("early", None)


@pytest.mark.parametrize(
    ("other", "spec"),
    [
        ({}, {"queues": ("Q",)}),
        ({"max_memory": 400}, {"queues": ("Q", "A"), "ram": 500}),
        ({"vos": ("other",)}, {"queues": ("Q", "A")}),
        ({"fairshare_policy": "type=any:0%"}, {"queues": ("Q", "A")}),
        ({}, {"priority": 900, "nucleus": "HOME"}),
        ({"site": "HOME", "pledged_cpu": -1.0}, {"priority": 1000, "nucleus": "HOME"}),
    ],
    ids=["named", "too small", "other VOs'", "without a share", "kept at its nucleus", "urgent"],
)
def test_e1_without_another_candidate_jobs_are_bound_early(
    other: dict[str, Any], spec: dict[str, Any]
) -> None:
    assert placed(house(a=other), **spec).binding == "early"


@pytest.mark.parametrize(
    ("spec", "by_vo", "plugin", "default", "wanted"),
    [
        ("", {}, None, "elastic", "elastic"),
        ("", {}, "early", "elastic", "early"),
        ("", {ALICE.vo: "late"}, "early", "elastic", "late"),
        ("early", {ALICE.vo: "late"}, "elastic", "elastic", "early"),
        ("", {"other": "late"}, None, "early", "early"),
    ],
)
def test_e1_the_task_says_first_then_its_vo_its_plugin_and_the_federation(
    spec: Any, by_vo: Mapping[str, Binding], plugin: Binding | None, default: Binding, wanted: str
) -> None:
    constants = BindingConstants(default=default, by_vo=by_vo)
    asked = replace(task(1).spec, binding=spec)
    assert isinstance(asked, TaskSpec)
    assert binding_of(asked, ALICE, constants, plugin) == wanted
    move = placed(house(binding=constants), plugin=Production(binding=plugin), binding=spec)
    assert move.binding == wanted


def afar(
    rate: float | None = 50, binding: Binding = "elastic", of: Mapping[str, Any] = READABLE
) -> Federation:
    """The house that binds so, whose Q at HOME takes nothing: A and B read what lies there."""
    known = house(rate, of, binding=BindingConstants(default=binding))
    queues = tuple(replace(one, max_memory=100 * (one.name == "Q")) for one in known.queues)
    links = (replace(link, throughput_1h=rate) for link in known.links)
    return replace(known, queues=queues, links=tuple(links))


ASKED: dict[str, Any] = {"ram": 500, "walltime": 60}


@pytest.mark.parametrize("binding", ["elastic", "late"])
def test_e3_nothing_is_brought_for_jobs_that_may_leave_where_pilots_read_it(binding: Binding) -> None:
    move = placed(afar(binding=binding), "HOME-DISK", **ASKED)
    assert (move.binding, move.target, move.creates) == (binding, JobState.ACTIVATED, {})


@pytest.mark.parametrize("binding", ["elastic", "late"])
@pytest.mark.parametrize(
    ("of", "rate", "spec"),
    [
        ({}, 50, {}),
        (READABLE, None, {}),
        (READABLE, 50, {"walltime": 0}),
        (READABLE, 0.01, {}),
        (READABLE, 50, {"attempt": 2}),
        (READABLE, 50, {"count": 12}),
        (READABLE, 50, {"binding": "early"}),
    ],
    ids=["not to be read", "unknown rate", "unknown run", "longer than the run", "tried", "shared", "early"],
)
def test_e3_inputs_are_brought_where_pilots_may_not_read_them_or_several_jobs_do(
    of: Mapping[str, Any], rate: float | None, spec: Mapping[str, Any], binding: Binding
) -> None:
    move = placed(afar(rate, binding, of), "HOME-DISK", **{**ASKED, **spec})
    assert move.target is JobState.ASSIGNED
    assert set(move.creates) == set(move.ids)


def test_e3_the_reading_of_an_input_counts_against_what_payloads_took_lately() -> None:
    asked = task(1, ram=500)
    (one,) = jobs(asked)
    state = world(
        afar(),
        asked,
        jobs=[replace(one, inputs=("f",))],
        files=[File(name="f", size=1_000_000, checksum="")],
        replicas=[replica("f", "HOME-DISK")],
        queue_reports=[queue_report(name, mean_run=60.0) for name in ("A", "B")],
    )
    (move,) = Production().decide(state).moves
    assert move.target is JobState.ACTIVATED
