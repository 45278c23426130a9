"""Tasks that come after others, whatever the graph and however its tasks end."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.federation.workflow_checks import workflow_faults
from pilotage.model.documents.decision import Move
from pilotage.model.documents.serialization import from_json
from pilotage.model.records.chains import Predecessor, Stage
from pilotage.model.records.inputs import InputFile, TaskOutputs
from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.records.spec import LiveWork, TaskSpec
from pilotage.model.records.states import ENDED, TaskState, is_allowed
from pilotage.policies.tasks.chaining import follow
from pilotage.testing import task as task_of
from pilotage.testing import world

T = TaskState
GOOD, BAD = (T.FINISHED,), (T.FAILED, T.CANCELLED)


@dataclass
class Graph:
    """Tasks by number, with those before each. Numbers are in the order of the graph."""

    before: Mapping[int, frozenset[int]]
    on_end: frozenset[int]
    states: dict[int, TaskState] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)

    def begin(self) -> None:
        for id_, before in self.before.items():
            self.states[id_] = T.WAITING if before else T.REGISTERED
            self.errors[id_] = ""

    def stage(self, id_: int) -> Stage:
        return Stage(
            task=id_,
            predecessors=tuple(
                Predecessor(reference=f"t{one}", task=one, name=f"t{one}", state=self.states[one])
                for one in sorted(self.before[id_])
            ),
        )

    def decide(self) -> int:
        """Take the step's decision, which must hold; return how many moves it had."""
        waiting = [id_ for id_, state in self.states.items() if state is T.WAITING]
        tasks = tuple(
            replace(task_of(id_, T.WAITING), error=self.errors[id_], on_end=id_ in self.on_end)
            for id_ in waiting
        )
        decision = follow(world(tasks=tasks, stages=tuple(self.stage(id_) for id_ in waiting)))
        for move in decision.moves:
            (id_,) = move.ids
            assert is_allowed("task", move.source, move.target)
            if move.target is T.REGISTERED:
                self.check_start(id_)
            self.states[id_] = TaskState(move.target)
            self.errors[id_] = str(move.changes["error"])
        return len(decision.moves)

    def check_start(self, id_: int) -> None:
        """It starts only after all before it ended, and finished unless any end will do."""
        allowed = ENDED["task"] if id_ in self.on_end else GOOD
        assert all(self.states[one] in allowed for one in self.before[id_])

    def settle(self, end: Any) -> None:
        """Let tasks start and end until nothing changes any more."""
        for _ in range(3 * len(self.before) + 3):
            started = [id_ for id_, state in self.states.items() if state is T.REGISTERED]
            for id_ in started:
                self.states[id_] = end(id_)
            if not self.decide() and not started:
                return
        raise AssertionError("it never settles")

    def is_blocked(self, id_: int) -> bool:
        """Whether a failed task holds this one, at once or through others that wait."""
        before = self.before[id_]
        if any(self.states[one] in BAD for one in before) and id_ not in self.on_end:
            return True
        return any(self.states[one] is T.WAITING and self.is_blocked(one) for one in before)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    many = draw(st.integers(1, 9))
    before = {
        id_: frozenset(draw(st.sets(st.integers(1, id_ - 1), max_size=3)) if id_ > 1 else ())
        for id_ in range(1, many + 1)
    }
    return Graph(before, draw(st.frozensets(st.integers(1, many), max_size=4)))


@given(graphs(), st.lists(st.sampled_from([*GOOD, *BAD]), min_size=9, max_size=9))
def test_every_stage_ends_or_is_held_with_a_reason_and_retries_let_all_go_on(
    graph: Graph, ends: list[TaskState]
) -> None:
    graph.begin()
    graph.settle(lambda id_: ends[id_ - 1])
    for id_, state in graph.states.items():
        assert state in ENDED["task"] or (state is T.WAITING and graph.is_blocked(id_))
        held_at_once = any(graph.states[one] in BAD for one in graph.before[id_]) and id_ not in graph.on_end
        assert bool(graph.errors[id_]) == (state is T.WAITING and held_at_once)
    while any(state in BAD for state in graph.states.values()):
        for id_, state in graph.states.items():
            if state in BAD:
                graph.states[id_] = T.REGISTERED
        graph.settle(lambda _: T.FINISHED)
    assert set(graph.states.values()) == {T.FINISHED}
    assert not any(graph.errors.values())


@given(st.lists(st.frozensets(st.integers(0, 7), max_size=3), min_size=1, max_size=8))
def test_a_graph_is_refused_just_if_it_has_a_circle(before: list[frozenset[int]]) -> None:
    many = len(before)
    specs = [
        TaskSpec(name=f"t{at}", after=tuple(f"t{one}" for one in sorted(others) if one < many))
        for at, others in enumerate(before)
    ]
    left, is_going = set(range(many)), True
    while is_going:
        free = {at for at in left if not {one for one in before[at] if one < many} & left}
        left, is_going = left - free, bool(free)
    faults = workflow_faults(specs)
    assert bool(faults) == bool(left)
    if faults:
        ((_, _, message),) = faults
        path = message.rpartition(": ")[2].split(" -> ")
        assert path[0] == path[-1]
        assert all(one in specs[int(two[1:])].after for one, two in pairwise(path))


def stage_with(task: int, outputs: int, work: LiveWork) -> Stage:
    made = tuple(
        InputFile(name=f"tasks/f/9/{at}/a.bam", scope="s", size=1, replicas=("disk",))
        for at in range(outputs)
    )
    before = Predecessor(reference="align", task=9, name="align", state=T.FINISHED, outputs=made)
    return Stage(task=task, predecessors=(before,), user=work, vo=work)


def reader(id_: int) -> Any:
    spec = TaskSpec(name="call", inputs=(TaskOutputs(task="align", match="*.bam"),), after=("align",))
    return replace(task_of(id_, T.WAITING), spec=spec)


def test_a_quota_of_files_holds_a_stage_with_a_reason_and_counts_those_of_the_same_pass() -> None:
    now = world(tasks=(reader(1), reader(2)), stages=())
    federation = replace(now.federation, quotas=QuotaConstants(files_by_user=15))
    work = LiveWork(tasks=2, jobs=2, files=2)
    stages = (stage_with(1, 10, work), stage_with(2, 10, work))
    first, second = follow(replace(now, federation=federation, stages=stages)).moves
    assert (first.ids, first.target) == ((1,), T.REGISTERED)
    assert (second.ids, second.target) == ((2,), T.WAITING)
    assert "would have 20 input files" in str(second.changes["error"])


def test_the_inputs_of_a_stage_become_files_and_are_counted() -> None:
    work = LiveWork(tasks=1, jobs=1, files=1)
    (move,) = follow(world(tasks=(reader(1),), stages=(stage_with(1, 3, work),))).moves
    assert isinstance(move, Move)
    assert (move.changes["planned_jobs"], move.changes["input_files"]) == (3, 3)
    spec = from_json(TaskSpec, str(move.changes["spec"]))
    assert [one.replicas for one in spec.inputs if isinstance(one, InputFile)] == [("disk",)] * 3


@pytest.mark.parametrize("held", ["", "user:alice"])
def test_a_person_may_hold_a_waiting_task(held: str) -> None:
    waiting = replace(reader(1), held=held)
    decision = follow(world(tasks=(waiting,), stages=(stage_with(1, 1, LiveWork(tasks=1)),)))
    assert bool(decision.moves) == (not held)
