"""Loops are woken by records that came into a state and stayed, and rest when nothing more would go."""

from dataclasses import replace
from typing import Any

from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.flow.loops.loops import Loops
from pilotage.flow.loops.wakeups import Wakeups, arrivals
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Step
from pilotage.flow.steps import STEPS
from pilotage.model.documents.decision import Committed, Create, Decision, Move
from pilotage.model.records.states import FIRST, JobState, TransferState
from pilotage.model.records.work import NewTask, TaskSpec
from pilotage.store import Store
from pilotage.testing import NOW
from tests.waiting import wait_for

from .house import ALICE


def _moved(*ids: int, source: JobState, target: JobState) -> Move:
    return Move(kind="job", ids=ids, source=source, target=target, cause="test")


def _arrivals(*changes: Any) -> set[tuple[str, str]]:
    decision = Decision(step="test", time=NOW, seed=1, changes=changes)
    accepted = tuple(change.ids if isinstance(change, Move) else () for change in changes)
    found = arrivals(decision, Committed(accepted=accepted, created=((),) * len(changes)))
    return {(kind, str(state)) for kind, state in found}


def test_a_state_that_every_record_left_again_wakes_nobody() -> None:
    begun = _moved(1, 2, source=JobState.SENT, target=JobState.RUNNING)
    ended = _moved(1, 2, source=JobState.RUNNING, target=JobState.FINISHED)
    assert _arrivals(begun, ended) == {("job", "finished")}
    assert _arrivals(begun, replace(ended, ids=(1,))) == {("job", "running"), ("job", "finished")}


def test_what_is_made_and_what_was_handed_back_are_told_apart() -> None:
    made = Create(cause="test", records=(NewTask(spec=TaskSpec(name="t"), owner=ALICE),))
    nobody = _moved(source=JobState.SENT, target=JobState.RUNNING)
    assert _arrivals(made, nobody) == {("task", str(FIRST["task"]))}


def test_new_records_wake_a_step_where_the_server_has_its_turn() -> None:
    wakeups = Wakeups(STEPS, has_turn=lambda loop: loop == "broker")
    wakeups.arrived(
        [("job", JobState.DEFINED), ("job", JobState.FINISHED), ("transfer", TransferState.QUEUED)]
    )
    assert {step.name for step in STEPS if wakeups.is_woken(step.name)} == {"broker", "stage"}


class Counting(Loops):
    """Loops whose passes change something and take no time."""

    passes = 0

    def _pass(self, step: Step, *, ending: bool = False) -> tuple[int, float]:
        self.passes += 1
        return 1, 60.0


def test_a_step_that_does_not_go_on_rests_until_it_is_woken(store: Store) -> None:
    step = replace(next(one for one in STEPS if one.name == "split"), goes_on=lambda _: False)
    runtime = Runtime(store, [step], load=load, movers=InstalledMovers)
    loops = Counting(runtime, [step])
    loops.start()
    wait_for(lambda: loops.passes == 1, "it is taken once")
    runtime.wakeups.wake(step.name)
    wait_for(lambda: loops.passes == 2, "it is taken once more")
    loops.stop()
    assert loops.passes == 2
