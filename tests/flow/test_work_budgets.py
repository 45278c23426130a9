"""A task whose own numbers make a policy's loops long is set aside, named, and holds up nobody."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from pilotage.explain.plans import of_decision
from pilotage.federation.faults import BadDocument
from pilotage.flow.brokerages import Brokerages
from pilotage.flow.calls.work import preview, what_if
from pilotage.flow.loops.isolation import MOST_OVER_BUDGET, within_budgets
from pilotage.flow.loops.set_aside import FIRST_COSTLY_PAUSE
from pilotage.flow.planning import plan, set_aside
from pilotage.flow.steps.rebind import rebound
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.documents.subjects import TASK
from pilotage.model.documents.world import World
from pilotage.model.records.advertisements import Advertisement
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import InputFile, TaskSpec
from pilotage.model.rules import work_budget
from pilotage.model.rules.work_budget import PAIRS, CountedWork, OverBudget, WorkBudget
from pilotage.model.values.identity import Identity
from pilotage.policies.brokerage.matchmaking.cycle import Matchmaking
from pilotage.policies.brokerage.production import Production
from pilotage.policies.tasks.completion import complete
from pilotage.policies.tasks.scouting import conclude
from pilotage.policies.tasks.splitting import split
from pilotage.server.api.work.explanations import explained_task
from pilotage.testing import NOW, federation, job, jobs, queue, queue_report, task, world
from pilotage.testing.records import file, replica
from pilotage.testing.worlds import jobs_of

from .house import House

EVE = Identity(name="eve", vo="ligo")
FILES = tuple(InputFile(name=f"f{number}", size=1, replicas=("HOME-DISK",)) for number in range(20))
KINDS = [one for one in vars(work_budget).values() if isinstance(one, CountedWork)]


@pytest.fixture
def small_budgets() -> Iterator[None]:
    """Ten of everything."""
    usual = {one: one.limit for one in KINDS}
    for one in KINDS:
        object.__setattr__(one, "limit", 10)
    yield
    for one, most in usual.items():
        object.__setattr__(one, "limit", most)


def _splitting() -> World:
    return world(
        federation(), tasks=[task(1, TaskState.REGISTERED, inputs=FILES), task(2, TaskState.REGISTERED)]
    )


def _brokered(**spec: Any) -> World:
    """Task 1 has 20 jobs that each read another file; task 2 has one."""
    files = [replace(file(f"s:f{number}"), size=number * 10**6) for number in range(20)]
    many = [
        job(number + 1, JobState.DEFINED, of=1, inputs=(one.name,), queue="", requirements="")
        for number, one in enumerate(files)
    ]
    one = job(100, JobState.DEFINED, of=2, queue="", requirements="")
    ads = [
        Advertisement(site=site, time=NOW - 10, source="native", number=1, submitting=0, pilots=0)
        for site in ("HOME", "AWAY")
    ]
    return world(
        federation([queue("Q"), queue("R", "AWAY")]),
        tasks=[task(1, **spec), task(2)],
        jobs=[*many, one],
        files=files,
        replicas=[replica(one.name, "HOME-DISK") for one in files],
        advertisements=ads,
    )


def _rebinding() -> World:
    waiting = [job(number, of=1, queue="Q", since=NOW - 60) for number in range(1, 21)]
    return world(
        federation([queue("Q"), queue("R")]),
        tasks=[task(1), task(2)],
        jobs=[*waiting, job(100, of=2, queue="Q", since=NOW - 90)],
        queue_reports=[queue_report("R", running_pilots=3)],
    )


def _merging() -> World:
    return world(
        federation(),
        tasks=[task(id_, state=TaskState.RUNNING) for id_ in (1, 2)],
        jobs=[job(id_, JobState.MERGING, of=id_) for id_ in (1, 2)],
        files=[replace(file(f"s:o{number}", job=1), task=1) for number in range(20)],
        task_counts=[*jobs_of(1, merging=1), *jobs_of(2, merging=1)],
    )


def _scouting() -> World:
    many = tuple(f"s:f{number}" for number in range(20))
    return world(
        federation(),
        tasks=[task(id_, state=TaskState.SCOUTING) for id_ in (1, 2)],
        jobs=[
            job(1, JobState.FINISHED, of=1, kind="scout", inputs=many),
            job(2, JobState.FINISHED, of=2, kind="scout"),
        ],
    )


POLICIES: dict[str, tuple[Callable[[World], Decision], Callable[[], World]]] = {
    "split": (split, _splitting),
    "production": (Production().decide, _brokered),
    "matchmaking": (
        Matchmaking().decide,
        lambda: _brokered(site_requirements="MY.InputMegabytes < 100"),
    ),
    "rank that moves": (
        Matchmaking().decide,
        lambda: _brokered(site_rank="0 - TARGET.CurMatches"),
    ),
    "rebind": (lambda state: rebound(state, "production", Brokerages()), _rebinding),
    "merge": (complete, _merging),
    "scouts": (conclude, _scouting),
}


@pytest.mark.usefixtures("small_budgets")
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_counts_and_others_are_decided_in_the_same_pass(name: str) -> None:
    policy, make = POLICIES[name]
    state = make()
    with pytest.raises(OverBudget) as raised:
        policy(state)
    assert raised.value.task == 1
    decision, (fault,), left = within_budgets(policy, state)
    assert (fault.subject, fault.key) == ("task", 1)
    assert [one.id for one in left.tasks] == [2]
    assert {2, 100} & {id_ for move in decision.moves for id_ in move.ids}
    assert any(one.unit in fault.error and one.remedy in fault.error for one in KINDS)
    assert "above 10" in fault.error


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "rebind"])
def test_ordinary_work_is_within_every_budget(name: str) -> None:
    policy, make = POLICIES[name]
    assert {1, 2} <= _decided_about(policy(make()), make())


def _decided_about(decision: Decision, state: World) -> set[int]:
    tasks = {one.id: one.task for one in state.jobs}
    moved = [(move.kind, id_) for move in decision.moves for id_ in move.ids]
    return {id_ if kind == "task" else tasks[id_] for kind, id_ in moved}


@pytest.mark.usefixtures("small_budgets")
def test_matching_counts_the_jobs_that_a_pilot_may_not_have() -> None:
    """F2: jobs of a task that is kept from a pilot's node are passed over one by one."""
    budget = WorkBudget()
    budget.spend(1, work_budget.PASSED_OVER, 10)
    with pytest.raises(OverBudget, match="needs 11 jobs of it that pilots passed"):
        budget.spend(1, work_budget.PASSED_OVER)
    budget.spend(2, work_budget.PASSED_OVER)


@pytest.mark.usefixtures("small_budgets")
def test_the_budget_reads_no_clock_and_a_saved_world_gives_the_same_decision() -> None:
    state = _brokered()
    again = from_json(World, to_json(state))
    first, second = (plan("broker", one) for one in (state, again))
    assert to_json(first) == to_json(second)
    assert set(set_aside(first)) == {"1"}
    assert "Task 1" in "\n".join(of_decision(first, state, (), 0))
    # What is set aside changes nothing of what is decided about the others.
    alone = replace(state, tasks=state.tasks[1:], jobs=tuple(one for one in state.jobs if one.task == 2))
    assert first.changes == plan("broker", alone).changes


@pytest.mark.usefixtures("small_budgets")
def test_a_task_beyond_its_budget_is_named_and_tried_again_rarely(house: House) -> None:
    bad, good = (id_ for _, id_ in house.submit({"jobs": 1}, {}).tasks)
    spec = house.store.queries.task(bad)
    assert spec is not None
    house.take("split")
    object.__setattr__(PAIRS, "limit", 0)
    house.take("broker")
    assert house.states(bad) == house.states(good) == {JobState.DEFINED: 1}
    object.__setattr__(PAIRS, "limit", 10)
    told = house.store.set_aside.of("task", str(bad))
    assert told[0].retry_at == house.now + FIRST_COSTLY_PAUSE
    assert "pairs of its jobs and queues in one decision, above 0; " in told[0].error
    assert "bind it to fewer queues" in "\n".join(explained_task(house.runtime, spec, []).lines)
    house.now += FIRST_COSTLY_PAUSE
    house.take("broker")
    assert house.states(bad) == {JobState.ACTIVATED: 1}
    assert house.store.set_aside.everything() == ()


@pytest.mark.usefixtures("small_budgets")
def test_a_thousand_such_tasks_of_one_person_cost_others_a_few_trials() -> None:
    asked = 0

    def policy(state: World) -> Decision:
        nonlocal asked
        asked += 1
        work = WorkBudget()
        for one in state.tasks:
            work.spend(one.id, PAIRS, 1 if one.owner == EVE else 11)
        return Decision(step="test", time=state.time, seed=state.seed)

    many = [task(number) for number in range(1, 1001)]
    state = world(federation(), tasks=[*many, task(2000, owner=EVE)])
    _, found, left = within_budgets(policy, state)
    assert len(found) == MOST_OVER_BUDGET == asked - 1
    assert [one.id for one in left.tasks] == [2000]


@pytest.mark.usefixtures("small_budgets")
def test_previews_and_what_ifs_answer_with_the_same_sentence() -> None:
    state = replace(_brokered(), tasks=(), jobs=())
    sentence = "files of its jobs in one decision, above 10"
    scattered = tuple(
        InputFile(name=f"f{number}", size=number * 10**6, replicas=("HOME-DISK",)) for number in range(20)
    )
    specs = [TaskSpec(name="bad", inputs=scattered, scouts=0), TaskSpec(name="good")]
    found = preview.preview(state, list(enumerate(specs)), None)
    assert [one.name for one in found.tasks] == ["good"]
    ((index, ((_, told),)),) = found.undecided
    assert index == 0
    assert sentence in told
    only = _brokered()
    only = replace(only, tasks=only.tasks[:1], jobs=only.jobs[:20])
    with pytest.raises(BadDocument) as raised:
        what_if.decide(only, what_if.Changes(task={"priority": 600}))
    assert sentence in raised.value.faults[0].text


def test_a_thousand_large_tasks_are_previewed_with_as_many_jobs_as_a_few() -> None:
    specs = [
        TaskSpec(name=f"t{number}", jobs=100_000, scouts=1000, command=("true",)) for number in range(1000)
    ]
    found = preview.preview(world(federation()), list(enumerate(specs)), None)
    assert sum(one.jobs for one in found.tasks) <= preview.MOST_PLANNED


def test_jobs_ahead_of_a_task_that_is_left_out_are_left_out() -> None:
    """M7: jobs that wait for the next cycle are of a task, too."""
    state = _brokered()
    ahead = jobs(state.tasks[0], 3)
    left = TASK.without(replace(state, ahead=tuple(ahead)), {1})
    assert left.ahead == ()
    Matchmaking().decide(left)


def test_a_long_chain_of_operators_is_an_error_value_and_no_failure() -> None:
    """M4: the reference library gives up at several hundred operators in a row."""
    state = _brokered(site_requirements="+".join(["a"] * 490))
    assert _decided_about(Matchmaking().decide(state), state) == {1, 2}


def test_a_rank_that_reads_matches_is_looked_up_where_they_changed() -> None:
    """M4: 300 sites and 2000 jobs took 600000 evaluations."""
    sites = [f"S{number}" for number in range(50)]
    of = federation([queue(f"Q{name}", name) for name in sites])
    one = task(1, site_rank="0 - TARGET.CurMatches")
    ads = [
        Advertisement(site=site, time=NOW - 10, source="native", number=1, submitting=0, pilots=0)
        for site in sites
    ]
    state = world(of, one, jobs=jobs(one, 200), advertisements=ads)
    usual = work_budget.EVALUATIONS.limit
    object.__setattr__(work_budget.EVALUATIONS, "limit", 50 + 200 + 50)
    try:
        decision = Matchmaking().decide(state)
    finally:
        object.__setattr__(work_budget.EVALUATIONS, "limit", usual)
    placed = [len(move.ids) for move in decision.moves]
    assert (sum(placed), set(placed)) == (200, {4})
