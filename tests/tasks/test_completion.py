"""Tasks whose jobs have all ended are merged, finished or failed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.documents.serialization import to_json
from pilotage.model.documents.world import World
from pilotage.model.records.states import LIVE_JOBS, JobState, TaskState, is_allowed
from pilotage.model.records.work import File, Measured, MergeSpec, NewJob, Requirements, Task
from pilotage.policies.tasks import completion
from pilotage.testing import ALICE, job, jobs_of, output_file, task, world

S, T = JobState, TaskState
MERGE = MergeSpec(command=("merge",), outputs=("all.txt",), ram=4000, walltime=7200)
AT_WORK = [state for state in LIVE_JOBS if state != S.MERGING]


def merging(id_: int = 1, state: TaskState = T.RUNNING, optional: tuple[str, ...] = ()) -> Task:
    outputs = ("a.txt", "plots/")
    made = task(id_, state, merge=MERGE, cores=8, ram=100, priority=700)
    return replace(made, spec=replace(made.spec, outputs=outputs, optional_outputs=optional))


def ends(where: World) -> dict[tuple[str, int], str]:
    """What every record moved to."""
    moves = completion.complete(where).moves
    assert all(is_allowed(move.kind, move.source, move.target) for move in moves)
    return {(move.kind, id_): move.target.value for move in moves for id_ in move.ids}


def test_a_task_finishes_when_all_its_jobs_did() -> None:
    assert ends(world(tasks=(task(),), task_counts=jobs_of(finished=5))) == {("task", 1): "finished"}


@pytest.mark.parametrize("state", AT_WORK)
def test_a_task_waits_for_every_job_even_if_one_has_failed(state: JobState) -> None:
    where = world(tasks=(task(),), task_counts=jobs_of(finished=5, failed=1, **{state.value: 1}))
    assert ends(where) == {}


def test_a_task_of_which_nothing_is_counted_stays() -> None:
    assert ends(world(tasks=(task(), merging(2)))) == {}
    assert ends(world(tasks=(task(),), task_counts=jobs_of(finished=0))) == {}


@pytest.mark.parametrize("state", [T.REGISTERED, T.FINISHED, T.FAILED, T.CANCELLED])
def test_only_tasks_at_work_are_completed(state: TaskState) -> None:
    assert ends(world(tasks=(task(1, state),), task_counts=jobs_of(finished=1))) == {}


def test_the_error_counts_jobs_as_the_task_s_own_counts_do() -> None:
    """A scout that failed and whose work others did is among them."""
    measured = Measured(finished=3, failed=1)
    one = replace(task(), measured=measured)
    (move,) = completion.complete(world(tasks=(one,), task_counts=jobs_of(finished=7, failed=3))).moves
    told = "2 of 10 jobs failed, besides 1 failed scout that other jobs replaced"
    assert move.changes["error"] == told


@pytest.mark.parametrize("others", [{}, {"finished": 3}, {"failed": 1}, {"merging": 2}])
def test_a_task_whose_last_job_ends_while_it_is_cancelled_is_cancelled(others: dict[str, int]) -> None:
    where = world(tasks=(merging(),), task_counts=jobs_of(cancelled=5, **others))
    assert ends(where)["task", 1] == "cancelled"


def test_a_task_with_failed_jobs_fails_and_names_their_count_and_one_error() -> None:
    failed = (job(9, S.FAILED, error="exit 9"), job(4, S.FAILED, error="exit 4"))
    (move,) = completion.complete(
        world(tasks=(task(),), task_counts=jobs_of(finished=3, failed=2), jobs=failed)
    ).moves
    assert (move.target, move.changes["error"]) == (T.FAILED, "2 of 5 jobs failed; job 4: exit 4")
    (move,) = completion.complete(world(tasks=(task(),), task_counts=jobs_of(failed=1))).moves
    assert move.changes["error"] == "its only job failed"


def test_jobs_that_waited_to_be_merged_are_done_when_another_failed() -> None:
    jobs = (job(1, S.MERGING), job(2, S.FAILED), job(3, S.MERGING), job(7, S.MERGING, of=2))
    where = world(tasks=(merging(),), task_counts=jobs_of(merging=2, failed=1), jobs=jobs)
    assert ends(where) == {("job", 1): "finished", ("job", 3): "finished", ("task", 1): "failed"}


def test_a_task_that_merges_is_given_one_job_that_reads_every_output() -> None:
    jobs = tuple(job(id_, S.MERGING) for id_ in (1, 2))
    files = (
        output_file(2),
        output_file(1),
        output_file(7, of=2),
        File(name="input", size=1, checksum="", task=1),
    )
    asked = merging()
    (move,) = completion.complete(
        world(tasks=(asked,), task_counts=jobs_of(merging=2), jobs=jobs, files=files)
    ).moves
    assert (move.ids, move.source, move.target) == ((1,), T.RUNNING, T.MERGING)
    wanted = NewJob(
        task=1,
        kind="merge",
        share="default",
        priority=700,
        requirements=Requirements.of(asked.spec.for_job("merge"), ALICE).text,
        inputs=("tasks/test/1/1/a.txt", "tasks/test/1/2/a.txt"),
    )
    assert move.creates == {1: (wanted,)}


def test_a_merge_with_nothing_to_read_fails_with_the_reason() -> None:
    where = world(tasks=(merging(),), task_counts=jobs_of(merging=1), jobs=(job(1, S.MERGING),))
    assert ends(where) == {("job", 1): "closed", ("task", 1): "failed"}
    error = completion.complete(where).moves[-1].changes["error"]
    assert error == "nothing to merge: its jobs left no outputs"


def test_a_task_whose_jobs_left_none_of_its_optional_outputs_finishes_without_a_merge() -> None:
    of = merging(optional=("plots/", "a.txt"))
    where = world(tasks=(of,), task_counts=jobs_of(merging=1), jobs=(job(1, S.MERGING),))
    assert ends(where) == {("job", 1): "finished", ("task", 1): "finished"}
    partly = merging(optional=("plots/",))
    assert ends(replace(where, tasks=(partly,)))["task", 1] == "failed"


def test_when_the_merge_job_finished_all_are_finished() -> None:
    jobs = (job(1, S.MERGING), job(2, S.MERGING))
    where = world(tasks=(merging(state=T.MERGING),), task_counts=jobs_of(merging=2, finished=1), jobs=jobs)
    assert ends(where) == {("job", 1): "finished", ("job", 2): "finished", ("task", 1): "finished"}


def test_when_the_merge_job_failed_for_good_the_others_are_done() -> None:
    jobs = (job(1, S.MERGING), job(2, S.FAILED, kind="merge", error="disk full"))
    where = world(tasks=(merging(state=T.MERGING),), task_counts=jobs_of(merging=1, failed=1), jobs=jobs)
    assert ends(where) == {("job", 1): "finished", ("task", 1): "failed"}
    assert (
        completion.complete(where).moves[-1].changes["error"] == "1 of 2 jobs failed; merge job 2: disk full"
    )


def test_a_merging_task_waits_for_its_merge_job() -> None:
    where = world(tasks=(merging(state=T.MERGING),), task_counts=jobs_of(merging=2, running=1))
    assert ends(where) == {}
    assert ends(replace(where, task_counts=jobs_of(merging=2))) == {}


def test_many_tasks_finish_in_one_move() -> None:
    where = world(
        tasks=tuple(task(id_) for id_ in (2, 1, 3)),
        task_counts=tuple(entry for id_ in (1, 2, 3) for entry in jobs_of(id_, finished=1)),
    )
    assert [move.ids for move in completion.complete(where).moves] == [(1, 2, 3)]


@st.composite
def ended_worlds(draw: st.DrawFn) -> World:
    tasks, jobs, files = [], [], []
    totals: dict[tuple[int, JobState], int] = {}
    for id_ in range(1, draw(st.integers(1, 4)) + 1):
        with_merge = draw(st.booleans())
        state = draw(st.sampled_from([T.RUNNING, T.MERGING] if with_merge else [T.RUNNING]))
        tasks.append(merging(id_, state) if with_merge else task(id_))
        for number in range(draw(st.integers(0, 6))):
            made = job(100 * id_ + number, draw(st.sampled_from(S)), of=id_)
            jobs.append(made)
            totals[id_, made.state] = totals.get((id_, made.state), 0) + 1
            if draw(st.booleans()):
                files.append(output_file(made.id, of=id_))
    every = tuple(
        entry for (id_, state), number in totals.items() for entry in jobs_of(id_, **{state.value: number})
    )
    return world(tasks=tuple(tasks), jobs=tuple(jobs), files=tuple(files), task_counts=every)


@given(ended_worlds())
def test_no_task_ends_while_a_job_is_at_work_and_no_job_is_left_waiting_after_it(where: World) -> None:
    moved = ends(where)
    for asked in where.tasks:
        own = [entry for entry in where.jobs if entry.task == asked.id]
        target = moved.get(("task", asked.id))
        if any(entry.state in AT_WORK for entry in own):
            assert target is None
        if target in ("finished", "failed"):
            # Jobs that succeeded are done, even if others failed. They are closed if nothing is to merge.
            others_failed = any(entry.state in (S.FAILED, S.CANCELLED, S.CLOSED) for entry in own)
            end = "finished" if target == "finished" or others_failed else "closed"
            assert {moved[("job", entry.id)] for entry in own if entry.state == S.MERGING} <= {end}
            assert (target == "failed") >= any(entry.state == S.FAILED for entry in own)
    mirrored = replace(
        where,
        tasks=where.tasks[::-1],
        jobs=where.jobs[::-1],
        files=where.files[::-1],
        task_counts=where.task_counts[::-1],
    )
    assert to_json(completion.complete(mirrored)) == to_json(completion.complete(where))
