"""A person retries, holds, releases and finishes a task, and cancels a job of it."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from zlib import adler32

import pytest

from pilotage.flow.calls.work import steering
from pilotage.flow.calls.work.retry import retry, retry_preview
from pilotage.flow.errors import NoSuchTask, NotNow
from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.world import Output, Report, World
from pilotage.model.records.spec_parts import MergeSpec
from pilotage.model.records.states import JobState, TaskState
from pilotage.policies.tasks import finishing, holding
from pilotage.store import Store
from pilotage.testing import task as task_of
from pilotage.testing import world
from tests.reading import world_of
from tests.waiting import wait_for

from .house import House, attempts

J, T = JobState, TaskState


def run(house: House, task: int, bad: Iterable[int] = (), end: str = "failed") -> list[int]:
    """Broker and match what waits; the jobs at the places ``bad`` fail, the others end well."""
    house.take("broker")
    pilot = house.pilot()
    found = sorted(attempts(house.match(pilot)))
    for place, (job, attempt) in enumerate(found):
        state = "failed" if place in bad else "done"
        house.tell(
            pilot,
            Report(job=job, attempt=attempt, state=state, error="boom", exit_code=1 if place in bad else 0),  # type: ignore[arg-type]
        )
    house.take("finish")
    return [job for job, _ in found]


def state(house: House, task: int) -> TaskState:
    found = house.store.queries.task(task)
    assert found is not None
    return found.state


def failed_task(house: House, bad: int = 2, **spec: Any) -> tuple[int, list[int]]:
    task = house.task(jobs=5, max_attempts=1, **spec)
    jobs = run(house, task, bad=range(bad))
    assert state(house, task) is T.FAILED
    return task, jobs


def test_retry_runs_what_failed_as_the_next_attempt_and_keeps_what_finished(house: House) -> None:
    task, jobs = failed_task(house)
    assert retry(house.runtime, task, "user:alice").moved == {J.FAILED: 2}
    assert state(house, task) is T.RUNNING
    assert house.states(task) == {J.FINISHED: 3, J.DEFINED: 2}
    assert sorted(run(house, task)) == sorted(jobs[:2])
    assert house.states(task) == {J.FINISHED: 5}
    assert state(house, task) is T.FINISHED
    again = house.store.queries.job(jobs[0])
    assert again is not None
    assert again.attempt == 2
    assert "retried by a person" in {event.cause for event in again.events}


def test_a_retried_job_has_as_many_attempts_as_at_first(house: House) -> None:
    task, (job, *_) = failed_task(house, bad=1)
    retry(house.runtime, task, "user:alice")
    assert run(house, task, bad=[0]) == [job]
    assert state(house, task) is T.FAILED
    retry(house.runtime, task, "user:alice")
    assert run(house, task) == [job]
    assert state(house, task) is T.FINISHED


def test_retry_of_one_job_leaves_the_others_and_a_dry_run_touches_nothing(house: House) -> None:
    task, jobs = failed_task(house)
    moved, found = retry_preview(house.runtime, task)
    assert moved == {J.FAILED: 2}
    assert {queue: jobs for choice in found.after for queue, jobs in choice.placed.items()} == {
        "north-queue": 2
    }
    assert house.states(task) == {J.FINISHED: 3, J.FAILED: 2}
    assert retry(house.runtime, task, "user:alice", job=jobs[1]).moved == {J.FAILED: 1}
    assert house.states(task) == {J.FINISHED: 3, J.FAILED: 1, J.DEFINED: 1}
    with pytest.raises(NotNow, match="has not ended badly"):
        retry(house.runtime, task, "user:alice", job=jobs[4])


def test_retry_says_what_would_work_where_there_is_nothing_to_retry(house: House) -> None:
    with pytest.raises(NoSuchTask):
        retry(house.runtime, 99, "user:alice")
    task = house.task(jobs=1)
    with pytest.raises(NotNow, match="no job of it has failed for good"):
        retry(house.runtime, task, "user:alice")
    run(house, task)
    with pytest.raises(NotNow, match="submit it again"):
        retry(house.runtime, task, "user:alice")


def test_two_retries_at_once_give_one_attempt(house: House) -> None:
    task, jobs = failed_task(house, bad=1)
    retry(house.runtime, task, "user:alice")
    with pytest.raises(NotNow):
        retry(house.runtime, task, "user:alice")
    found = house.store.queries.job(jobs[0])
    assert found is not None
    assert found.attempt == 2


def test_the_retry_of_one_job_gives_its_neighbours_no_attempts(house: House) -> None:
    """Nor jobs that are made later: each has as many as its task says."""
    task = house.task(jobs=3, max_attempts=2)
    house.take("broker")
    pilot = house.pilot()
    (one, *others) = sorted(attempts(house.match(pilot)))
    house.tell(pilot, Report(job=one[0], attempt=1, state="failed", error="boom", exit_code=1))
    run(house, task, bad=range(1))
    for job in others:
        house.tell(pilot, Report(job=job[0], attempt=1, state="failed", error=f"{job}", exit_code=2))
    assert house.states(task) == {J.FAILED: 1, J.DEFINED: 2}
    assert retry(house.runtime, task, "user:alice", job=one[0]).moved == {J.FAILED: 1}
    run(house, task, bad=range(3))
    assert house.states(task) == {J.FAILED: 2, J.DEFINED: 1}, "only the retried one has another attempt"
    run(house, task, bad=range(1))
    assert house.states(task) == {J.FAILED: 3}


def test_a_retried_task_is_not_stopped_for_its_failures_of_before(house: House) -> None:
    """F3: what failed before the retry counts no more; what fails alike after it does."""
    task = house.task(jobs=12, max_attempts=3)
    house.take("broker")
    pilot = house.pilot()
    for job, attempt in attempts(house.match(pilot)):
        house.tell(pilot, Report(job=job, attempt=attempt, state="failed", error="KeyError", exit_code=1))
    house.take("stop")
    assert state(house, task) is T.FAILED
    assert set(house.states(task)) == {J.CLOSED}
    retry(house.runtime, task, "user:alice")
    house.take("stop")
    assert state(house, task) is T.RUNNING
    assert house.states(task) == {J.DEFINED: 12}


def test_a_cancelled_task_is_taken_up_again(house: House) -> None:
    task = house.task(jobs=3)
    cancel(house.runtime, task, "enough", "user:alice")
    assert house.states(task) == {J.CANCELLED: 3}
    assert retry(house.runtime, task, "user:alice").moved == {J.CANCELLED: 3}
    run(house, task)
    assert state(house, task) is T.FINISHED


def test_retry_respects_quotas_of_live_jobs(house: House) -> None:
    task, _ = failed_task(house, bad=4)
    found = house.store.federation()
    house.store.save_federation(replace(found, quotas=replace(found.quotas, jobs_by_user=1)), "test")
    retry(house.runtime, task, "user:alice")
    assert house.states(task) == {J.FINISHED: 1, J.DEFINED: 1, J.THROTTLED: 3}


def test_held_jobs_do_not_start_until_they_are_released(house: House) -> None:
    task = house.task(jobs=4, max_attempts=3)
    house.take("broker")
    pilot = house.pilot()
    running = attempts(house.match(pilot, most=1))
    assert steering.hold(house.runtime, task, "user:alice") == {J.ACTIVATED: 3}
    assert house.states(task) == {J.HELD: 3, J.SENT: 1}
    # The next attempt of a job that ran is held, too.
    house.tell(pilot, Report(job=running[0][0], attempt=1, state="failed", error="boom", exit_code=1))
    house.take("broker")
    assert house.states(task) == {J.HELD: 4}
    assert attempts(house.match(house.pilot())) == []
    with pytest.raises(NotNow, match="held by user:alice already"):
        steering.hold(house.runtime, task, "user:bob")
    assert steering.release(house.runtime, task, "user:alice") == {J.HELD: 4}
    run(house, task)
    assert state(house, task) is T.FINISHED
    with pytest.raises(NotNow, match="is done"):
        steering.release(house.runtime, task, "user:alice")


def test_a_held_task_is_not_split(house: House) -> None:
    ((_, task),) = house.submit({"jobs": 3}).tasks
    steering.hold(house.runtime, task, "user:alice")
    house.take("split")
    assert house.states(task) == {}
    steering.release(house.runtime, task, "user:alice")
    house.take("split")
    assert house.states(task) == {J.DEFINED: 3}


def test_a_hold_of_a_task_without_jobs_is_an_event(house: House) -> None:
    ((_, task),) = house.submit({"jobs": 3}).tasks
    log = house.store.event_log
    after = log.newest()
    steering.hold(house.runtime, task, "user:alice")
    steering.release(house.runtime, task, "user:alice")
    told = [(one.task, one.target, one.actor) for one in log.page(after, log.newest(), 10)]
    assert told == [(task, "held", "user:alice"), (task, "released", "user:alice")]


def test_finish_ends_a_task_with_what_it_has(house: House) -> None:
    task = house.task(jobs=5, max_attempts=1)
    house.take("broker")
    with pytest.raises(NotNow, match=f"pilotage cancel {task}"):
        steering.finish(house.runtime, task, "user:alice")
    pilot = house.pilot()
    first, second = attempts(house.match(pilot, most=2))
    house.tell(pilot, Report(job=first[0], attempt=1, state="done"))
    house.tell(pilot, Report(job=second[0], attempt=1, state="failed", error="boom", exit_code=1))
    assert steering.finish(house.runtime, task, "user:alice") == {J.ACTIVATED: 3}
    house.take("finish")
    assert state(house, task) is T.FINISHED
    assert house.states(task) == {J.FINISHED: 1, J.FAILED: 1, J.CLOSED: 3}


def test_no_job_of_a_task_that_ended_with_what_it_had_is_retried(house: House) -> None:
    task, jobs = failed_task(house)
    retry(house.runtime, task, "user:alice")
    steering.finish(house.runtime, task, "user:alice")
    house.take("finish")
    assert state(house, task) is T.FINISHED
    for job in (None, jobs[0]):
        with pytest.raises(NotNow, match="submit it again"):
            retry(house.runtime, task, "user:alice", job=job)
    assert house.states(task) == {J.FINISHED: 3, J.CLOSED: 2}


@pytest.mark.parametrize("verb", [partial(holding.hold, who="alice"), holding.release, finishing.finish])
def test_a_task_that_ends_meanwhile_is_left_as_it_is(verb: Callable[[World], Decision]) -> None:
    """Whatever the commit hands back is decided about again: an ended task must not be, for ever."""
    assert verb(world(tasks=(task_of(state=T.FINISHED),))).changes == ()


def test_cancelling_one_job_lets_the_others_go_on(house: House) -> None:
    task = house.task(jobs=3, max_attempts=1)
    house.take("broker")
    pilot = house.pilot()
    (job, _), *others = attempts(house.match(pilot))
    cancel(house.runtime, task, "enough", "user:alice", job)
    assert house.report(pilot, "running", [(job, 1), *others]) == [(job, 1)]
    house.report(pilot, "done", others)
    house.take("finish")
    assert state(house, task) is T.CANCELLED
    assert house.states(task) == {J.FINISHED: 2, J.CANCELLED: 1}


class Merging(House):
    """A house whose jobs leave a file each, to be merged."""

    def merged(self, **spec: Any) -> int:
        merge = MergeSpec(command=("cat",), outputs=("out",))
        return self.task(
            **{"command": ("x",), "outputs": ("out",), "merge": merge, "max_attempts": 1, "jobs": 3, **spec}
        )

    def run(self, bad: Collection[int] = ()) -> None:
        """Run what waits: jobs at the places ``bad`` fail, the others leave their file."""
        self.take("broker")
        pilot = self.pilot()
        orders = [job for work in self.match(pilot).works for job in work.jobs]
        self.report(pilot, "running", [(job.job, job.attempt) for job in orders])
        for place, job in enumerate(orders):
            if place in bad:
                self.tell(pilot, Report(job=job.job, attempt=job.attempt, state="failed", error="no"))
                continue
            scratch = self.place / "north" / job.scratch
            scratch.mkdir(parents=True)
            (scratch / "out").write_text("made")
            output = Output(name="out", size=4, checksum=f"adler32:{adler32(b'made'):08x}")
            self.tell(pilot, Report(job=job.job, attempt=job.attempt, state="done", outputs=(output,)))

        def is_staged() -> bool:
            self.take("stage")
            return not world_of(self.store, "stage", self.now, 1, limit=100).transfers

        wait_for(is_staged, "the outputs are delivered")
        self.take("stage")
        self.take("finish")


@pytest.fixture
def merging(store: Store, tmp_path: Path) -> Merging:
    return Merging(store, tmp_path)


def test_parts_that_wait_to_be_merged_are_kept_by_a_retry(merging: Merging) -> None:
    task = merging.merged()
    merging.run(bad=[1])
    assert state(merging, task) is T.FAILED
    assert merging.states(task) == {J.FINISHED: 2, J.FAILED: 1}
    retry(merging.runtime, task, "user:alice")
    assert merging.states(task) == {J.MERGING: 2, J.DEFINED: 1}
    merging.run()
    assert state(merging, task) is T.MERGING
    merging.run()
    assert state(merging, task) is T.FINISHED
    assert merging.states(task) == {J.FINISHED: 4}


def test_a_merge_job_that_failed_is_retried_with_the_parts(merging: Merging) -> None:
    task = merging.merged()
    merging.run()
    merging.run(bad=[0])
    assert state(merging, task) is T.FAILED
    retry(merging.runtime, task, "user:alice")
    assert state(merging, task) is T.MERGING
    merging.run()
    assert state(merging, task) is T.FINISHED
    assert merging.states(task) == {J.FINISHED: 4}


def test_finish_merges_what_is_there(merging: Merging) -> None:
    task = merging.merged()
    merging.take("broker")
    pilot = merging.pilot()
    merging.runtime.clock()
    (job, _) = attempts(merging.match(pilot, most=1))[0]
    merging.tell(pilot, Report(job=job, attempt=1, state="failed", error="no"))
    steering.hold(merging.runtime, task, "user:alice")
    steering.release(merging.runtime, task, "user:alice")
    merging.run(bad=[1])
    # Of three jobs two failed: the task has failed, and is taken up again to end with what it has.
    assert state(merging, task) is T.FAILED
    retry(merging.runtime, task, "user:alice")
    assert merging.states(task) == {J.MERGING: 1, J.DEFINED: 2}
    steering.finish(merging.runtime, task, "user:alice")
    merging.take("finish")
    assert state(merging, task) is T.MERGING
    merging.run()
    assert state(merging, task) is T.FINISHED
    assert merging.states(task) == {J.FINISHED: 2, J.CLOSED: 2}


def test_finish_of_a_failed_task_merges_what_is_there(merging: Merging) -> None:
    task = merging.merged()
    merging.run(bad=[1])
    assert state(merging, task) is T.FAILED
    assert steering.finish(merging.runtime, task, "user:alice") == {}
    assert merging.states(task) == {J.MERGING: 2, J.FAILED: 1}
    merging.take("finish")
    assert state(merging, task) is T.MERGING
    merging.run()
    assert state(merging, task) is T.FINISHED
    assert merging.states(task) == {J.FINISHED: 3, J.FAILED: 1}
    with pytest.raises(NotNow, match="is done"):
        steering.finish(merging.runtime, task, "user:alice")


def test_finish_of_a_failed_task_needs_a_job_that_ended_well(merging: Merging) -> None:
    task = merging.merged()
    merging.run(bad=[0, 1, 2])
    assert state(merging, task) is T.FAILED
    with pytest.raises(NotNow, match=f"has nothing: pilotage retry {task}"):
        steering.finish(merging.runtime, task, "user:alice")
    assert state(merging, task) is T.FAILED


def test_cancelling_keeps_parts_that_are_stored_and_a_retry_merges_them(merging: Merging) -> None:
    task = merging.merged(max_attempts=2)
    merging.run(bad=[1])
    assert merging.states(task) == {J.MERGING: 2, J.DEFINED: 1}
    cancel(merging.runtime, task, "enough", "user:alice")
    assert merging.states(task) == {J.FINISHED: 2, J.CANCELLED: 1}
    retry(merging.runtime, task, "user:alice")
    assert merging.states(task) == {J.MERGING: 2, J.DEFINED: 1}
    merging.run()
    merging.run()
    assert state(merging, task) is T.FINISHED
