"""A person cancels a task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.documents.world import World
from pilotage.model.records.states import LIVE_JOBS, JobState, TaskState, TransferState, is_allowed
from pilotage.model.records.work import Transfer
from pilotage.policies.tasks import cancellation
from pilotage.testing import NOW, job, task, world

S, T, X = JobState, TaskState, TransferState


def transfer(id_: int, state: TransferState, file: str = "tasks/test/1/5/a.txt") -> Transfer:
    return Transfer(
        id=id_,
        file=file,
        source="HOME-DISK",
        destination="home",
        direction="upload",
        share="_default",
        priority=25,
        state=state,
        attempt=1,
        created=NOW,
        since=NOW,
    )


def cancelled(where: World) -> set[tuple[str, int]]:
    moves = cancellation.cancel(where, 1, "cancelled by alice").moves
    for move in moves:
        assert is_allowed(move.kind, move.source, move.target)
        # Outputs that are stored stay.
        is_stored = (move.kind, move.source) == ("job", S.MERGING)
        assert move.target.value == ("finished" if is_stored else "cancelled")
        assert move.cause == "cancelled by alice"
        assert is_stored or move.changes["error"] == "cancelled by alice"
    return {(move.kind, id_) for move in moves for id_ in move.ids}


def test_the_task_and_its_live_jobs_are_cancelled_by_state() -> None:
    jobs = tuple(job(id_, state) for id_, state in enumerate([*S, *S], start=1))
    where = world(tasks=(task(),), jobs=jobs)
    assert cancelled(where) == {("task", 1), *(("job", j.id) for j in jobs if j.state in LIVE_JOBS)}
    assert len(cancellation.cancel(where, 1, "why").moves) == 1 + len(LIVE_JOBS)


def test_transfers_of_its_outputs_are_cancelled_those_that_others_may_wait_for_are_not() -> None:
    transfers = (
        *(transfer(id_, state) for id_, state in enumerate(X, start=1)),
        transfer(11, X.QUEUED, "raw/input.dat"),
        transfer(12, X.QUEUED, "tasks/test/12/5/a.txt"),
    )
    where = world(tasks=(task(),), transfers=transfers)
    assert cancelled(where) == {("task", 1), *(("transfer", id_) for id_ in range(1, 6))}


def test_other_tasks_go_on() -> None:
    where = world(tasks=(task(1), task(2)), jobs=(job(1, S.RUNNING), job(2, S.RUNNING, of=2)))
    assert cancelled(where) == {("task", 1), ("job", 1)}


@pytest.mark.parametrize("state", [T.FINISHED, T.FAILED, T.CANCELLED])
def test_a_task_that_has_ended_stays_as_it_is_and_what_is_left_of_it_is_cancelled(state: TaskState) -> None:
    assert cancelled(world(tasks=(task(1, state),), jobs=(job(1, S.SENT),))) == {("job", 1)}
    assert cancelled(world(tasks=(task(1, state),))) == set()


@given(st.lists(st.sampled_from(S)), st.lists(st.sampled_from(X)), st.sampled_from(T))
def test_nothing_that_has_ended_is_cancelled(
    jobs: list[JobState], transfers: list[TransferState], state: TaskState
) -> None:
    where = world(
        tasks=(task(1, state),),
        jobs=tuple(job(id_, of) for id_, of in enumerate(jobs, start=1)),
        transfers=tuple(transfer(id_, of) for id_, of in enumerate(transfers, start=1)),
    )
    moved = cancelled(where)
    assert {id_ for kind, id_ in moved if kind == "job"} == {j.id for j in where.jobs if j.state in LIVE_JOBS}
