"""The next attempt of a job asks for what the last one lacked, as its task's ``retries`` say."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.federation.documents import checked
from pilotage.federation.faults import BadDocument, field_name
from pilotage.flow.calls.pilots.match import match
from pilotage.flow.calls.work.retry import retry
from pilotage.model.documents.decision import Touch
from pilotage.model.documents.serialization import from_json, to_document, to_json
from pilotage.model.documents.world import Report
from pilotage.model.records.failure_kinds import FailureKind
from pilotage.model.records.requirements import Requirements
from pilotage.model.records.retries import Retries
from pilotage.model.records.states import JobState, PilotState, TaskState
from pilotage.model.records.work import TaskSpec
from pilotage.ports.computing import PilotStatus
from pilotage.testing.stores import decision

from .house import FakeElement, House, attempts

J = JobState
MEMORY = "memory exceeded: 1100 MB of 1000\nTraceback: MemoryError"
TIME = "walltime exceeded: 600 s of 600"


def fail(house: House, error: str, kind: FailureKind = "payload") -> int:
    """Broker and match the one job; its attempt fails."""
    house.take("broker")
    (waiting,) = house.store.queries.jobs(1, JobState.ACTIVATED, 1)
    pilot = house.pilot(queue=waiting.queue)
    ((job, attempt),) = attempts(house.match(pilot))
    report = Report(job=job, attempt=attempt, state="failed", error=error, exit_code=-9, kind=kind)
    house.tell(pilot, report)
    return job


def limits(house: House) -> tuple[float, float]:
    """Memory and walltime that the next attempt is held to."""
    house.take("broker")
    (work,) = house.match(house.pilot()).works
    return work.memory_limit, work.walltime


def last_cause(house: House, job: int) -> str:
    found = house.store.queries.job(job)
    assert found is not None
    return found.events[-1].cause


def test_a_job_that_lacked_memory_asks_for_half_as_much_more(house: House) -> None:
    task = house.task(jobs=1, ram=1000, walltime=600, command=("x",))
    job = fail(house, MEMORY, "memory")
    assert house.states(task) == {J.DEFINED: 1}
    assert last_cause(house, job) == "tried again, attempt 2 of 3, with ram 1000 to 1500"
    assert Requirements.from_text(house.store.queries.requirements(job)).memory == 1500
    fail(house, MEMORY, "memory")
    assert limits(house) == (2250, 600)


def test_a_job_that_lacked_time_asks_for_more_whatever_its_work_was_thought_to_be(house: House) -> None:
    house.task(jobs=1, ram=1000, walltime=600, cpu_time=1000, command=("x",))
    job = fail(house, TIME, "walltime")
    assert last_cause(house, job).endswith("with cpu_time 1000 to 0, walltime 600 to 900")
    assert limits(house) == (1000, 900)


@pytest.mark.parametrize(
    ("state", "excess", "grown"), [("ended", "memory", (1500, 600)), ("stuck", "walltime", (1000, 900))]
)
def test_a_job_whose_pilot_the_batch_system_stopped_asks_for_more(
    house: House, state: Any, excess: Any, grown: tuple[float, float]
) -> None:
    element = FakeElement()
    house.element = element
    task = house.task(jobs=1, ram=1000, walltime=600, command=("x",))
    house.take("broker")
    pilot = house.pilot()
    named = Touch(kind="pilot", ids=(pilot,), changes={"reference": "batch-1"})
    house.store.commit(decision(named), "test")
    ((job, attempt),) = attempts(house.match(pilot))
    house.tell(pilot, Report(job=job, attempt=attempt, state="running"))
    element.status = PilotStatus(state=state, reason="the batch system's words", excess=excess)
    house.take("provision")
    # An end is believed once the pilot has been silent for a while.
    house.now += 180
    house.take("provision")
    seen = house.store.queries.pilot(pilot)
    assert seen is not None
    told = f"{excess} exceeded: stopped by its batch system: the batch system's words"
    assert (seen.state, seen.error) == (PilotState.FAILED, told)
    assert element.cancelled == (["batch-1"] if state == "stuck" else [])
    house.take("watch")
    assert house.states(task) == {J.DEFINED: 1}, "without any wait for a heartbeat"
    found = house.store.queries.job(job)
    assert found is not None
    assert found.error == told
    assert limits(house) == grown


def test_a_job_asks_for_no_more_than_the_most_that_a_queue_of_it_allows(house: House) -> None:
    found = house.store.federation()
    (queue,) = found.queues
    queue = replace(queue, max_memory=1000, max_walltime=700)
    large = replace(queue, name="large", max_memory=1200, max_walltime=800)
    foreign = replace(queue, name="foreign", max_memory=9000, max_walltime=9000, vos=("cms",))
    offline = replace(queue, name="gone", max_memory=9000, max_walltime=9000, status="offline")
    house.store.save_federation(replace(found, queues=(queue, large, foreign, offline)), "test")
    house.task(jobs=1, ram=1000, walltime=600, command=("x",), queues=("north-queue", "large"))
    job = fail(house, MEMORY, "memory")
    house.take("broker")
    assert Requirements.from_text(house.store.queries.requirements(job)).memory == 1200
    seen = house.store.queries.job(job)
    assert seen is not None
    assert seen.queue == "large"


def test_where_no_queue_allows_more_a_job_of_a_full_slot_is_tried_again_as_it_was(house: House) -> None:
    house.federate(max_memory=1000, max_walltime=600)
    task = house.task(jobs=1, ram=1000, walltime=599, command=("x",))
    found = house.store.queries.job(fail(house, MEMORY, "slot-memory"))
    assert found is not None
    assert found.events[-1].cause == "tried again, attempt 2 of 3"
    assert limits(house) == (1000, 599)
    assert house.states(task) == {J.SENT: 1}


@pytest.mark.parametrize(
    ("kind", "words"), [("memory", "no queue of it allows more than 1000 MB"), ("walltime", "599 s")]
)
def test_where_no_queue_allows_more_a_payload_over_its_own_limit_fails_for_good(
    house: House, kind: FailureKind, words: str
) -> None:
    house.federate(max_memory=1000, max_walltime=600)
    task = house.task(jobs=1, ram=1000, walltime=599, command=("x",))
    found = house.store.queries.job(fail(house, MEMORY, kind))
    assert found is not None
    assert (found.state, found.attempt) == (J.FAILED, 1)
    assert words in found.error.splitlines()[0]
    assert found.error.splitlines()[1] == "Traceback: MemoryError"
    house.take("finish")
    ended = house.store.queries.task(task)
    assert ended is not None
    assert words in ended.error


def test_a_limit_that_the_queue_sets_grows_too(house: House) -> None:
    """Without a request of its own, a payload is held to the limit of its queue."""
    found = house.store.federation()
    (queue,) = found.queues
    large = replace(queue, name="large", max_memory=8000, status="offline")
    small = replace(queue, max_memory=2000)
    house.store.save_federation(replace(found, queues=(small, large)), "test")
    house.task(jobs=1, command=("x",))
    house.take("broker")
    pilot = house.pilot()
    ((job, attempt),) = attempts(house.match(pilot))
    house.store.save_federation(replace(found, queues=(small, replace(large, status="online"))), "test")
    house.tell(pilot, Report(job=job, attempt=attempt, state="failed", error=MEMORY, kind="memory"))
    assert Requirements.from_text(house.store.queries.requirements(job)).memory == 3000


@pytest.mark.parametrize("error", ["exit code 1\nmemory exceeded: 5 MB of 4", "killed by signal 9", "lost"])
def test_other_failures_change_nothing(house: House, error: str) -> None:
    house.task(jobs=1, ram=1000, walltime=600, command=("x",))
    assert last_cause(house, fail(house, error)) == "tried again, attempt 2 of 3"
    assert limits(house) == (1000, 600)


@pytest.mark.parametrize(
    ("retries", "cause"),
    [
        (Retries(memory=2), "tried again, attempt 2 of 3, with ram 1000 to 2000"),
        (Retries(memory=1), "tried again, attempt 2 of 3"),
    ],
)
def test_a_task_says_how_its_jobs_are_tried_again(house: House, retries: Retries, cause: str) -> None:
    house.task(jobs=1, ram=1000, command=("x",), retries=retries)
    assert last_cause(house, fail(house, MEMORY, "memory")) == cause


def test_a_task_of_one_attempt_fails_at_the_first(house: House) -> None:
    task = house.task(jobs=1, ram=1000, command=("x",), max_attempts=1)
    fail(house, MEMORY, "memory")
    assert house.states(task) == {J.FAILED: 1}


@pytest.mark.parametrize(
    ("retries", "told"),
    [
        ({"memory": 0.5}, {"retries.memory": "0.5 is below 1; give 1 or more"}),
        ({"memroy": 2}, {"retries.memroy": "there is no such field; did you mean memory?"}),
        (3, {"retries": "3 is not a mapping; give fields as name: value"}),
        ("no", {"retries": "'no' is not a mapping; give fields as name: value"}),
    ],
)
def test_retries_are_bounded(retries: Any, told: dict[str, str]) -> None:
    with pytest.raises(BadDocument) as caught:
        checked(TaskSpec, {"name": "t", "retries": retries})
    assert {field_name(fault.path): fault.text for fault in caught.value.faults} == told


def test_stored_tasks_keep_their_retries() -> None:
    spec = TaskSpec(name="t", retries=Retries(memory=2))
    assert from_json(TaskSpec, to_json(spec)) == spec
    before = {name: value for name, value in to_document(spec).items() if name != "retries"}
    assert checked(TaskSpec, before).retries == Retries()


def fail_alike(house: House, pilot: int, given: list[tuple[int, int]]) -> None:
    error = "ModuleNotFoundError: No module named 'numpy'"
    for job, attempt in given:
        report = Report(job=job, attempt=attempt, state="failed", error=error, exit_code=1, wall_seconds=2.0)
        house.tell(pilot, report)
        house.take("stop")


@pytest.mark.parametrize("jobs", [3, 5, 9])
def test_f3_a_small_task_whose_jobs_all_fail_alike_stops_at_their_first_attempts(
    house: House, jobs: int
) -> None:
    task = house.task(jobs=jobs, command=("x",))
    house.take("broker")
    one, other = house.pilot(), house.pilot()
    first, rest = attempts(house.match(one, most=jobs // 2)), attempts(house.match(other))
    fail_alike(house, one, first)
    fail_alike(house, other, rest[:-1])
    # One is still to tell, and may end well.
    assert J.CLOSED not in house.states(task)
    fail_alike(house, other, rest[-1:])
    found = house.store.queries.task(task)
    assert found is not None
    assert (found.state, len(first) + len(rest)) == (TaskState.FAILED, jobs)
    assert "ModuleNotFoundError" in found.error


@pytest.mark.parametrize("jobs", [1, 2])
def test_f3_one_or_two_jobs_have_the_attempts_that_their_task_says(house: House, jobs: int) -> None:
    house.task(jobs=jobs, command=("x",), max_attempts=4)
    pilot = house.pilot()
    for number in range(1, 5):
        house.take("broker")
        given = attempts(house.match(pilot))
        assert [attempt for _, attempt in given] == [number] * jobs
        fail_alike(house, pilot, given)


def test_f3_broken_inputs_do_not_stop_a_task_whose_others_are_good(house: House) -> None:
    """Forty jobs, ten of them broken: none of the others is stopped, whatever the order."""
    task = house.task(jobs=40, command=("x",), max_attempts=1)
    house.take("broker")
    pilot = house.pilot()
    found = sorted(attempts(house.match(pilot)))
    assert len(found) == 40
    house.report(pilot, "done", found[10:11])
    for job, attempt in found[:10]:
        house.tell(pilot, Report(job=job, attempt=attempt, state="failed", error="bad base", exit_code=1))
        house.take("stop")
    house.report(pilot, "done", found[11:])
    house.take("finish")
    assert house.states(task) == {J.FAILED: 10, J.FINISHED: 30}


def test_f3_a_task_whose_first_jobs_alone_are_bad_goes_on_as_its_error_says(house: House) -> None:
    task = house.task(jobs=14, command=("x",), max_attempts=1)
    house.take("broker")
    pilot = house.pilot()
    first = sorted(attempts(house.match(pilot, most=10)))
    fail_alike(house, pilot, first)
    found = house.store.queries.task(task)
    assert found is not None
    assert found.state is TaskState.FAILED
    assert f"retry a good one (pilotage retry job:ID), then all (pilotage retry {task})" in found.error
    good = max(job.id for job in house.store.queries.jobs(task, JobState.CLOSED, 100))
    retry(house.runtime, task, "user:alice", job=good)
    house.take("broker")
    house.report(pilot, "done", attempts(house.match(pilot)))
    house.take("finish")
    retry(house.runtime, task, "user:alice")
    house.take("broker")
    again = dict(attempts(house.match(pilot)))
    assert len(again) == 13
    fail_alike(house, pilot, [(job, again[job]) for job, _ in first])
    house.report(pilot, "done", [one for one in again.items() if one[0] not in dict(first)])
    assert house.states(task) == {J.FAILED: 10, J.FINISHED: 4}


def end_with_pilot(house: House, lasted: float) -> int:
    """Let the one job run so many s until its pilot's walltime is over."""
    house.take("broker")
    (waiting,) = house.store.queries.jobs(1, JobState.ACTIVATED, 1)
    pilot = house.pilot(queue=waiting.queue)
    ((job, attempt),) = attempts(house.match(pilot))
    error = "the pilot's walltime is over"
    report = Report(
        job=job, attempt=attempt, state="failed", error=error, kind="slot-walltime", wall_seconds=lasted
    )
    house.tell(pilot, report)
    return job


def test_a_job_that_outlasts_its_pilot_asks_for_a_pilot_that_lives_longer_than_it_lasted(
    house: House,
) -> None:
    """Its own limit stays the queue's: only the estimate was wrong."""
    house.federate(core_power=10, max_walltime=9000)
    house.task(jobs=1, cpu_time=10_000, cpu_efficiency=1.0, command=("x",))
    job = end_with_pilot(house, 3000)
    assert last_cause(house, job) == "tried again, attempt 2 of 3, with cpu_time 10000 to 45000"
    assert not attempts(match(house.runtime, house.pilot(walltime=4000), 1, 0, 4000, 1))
    house.take("broker")
    assert not attempts(match(house.runtime, house.pilot(walltime=4000), 1, 0, 4000, 1))
    (work,) = match(house.runtime, house.pilot(walltime=9000), 1, 0, 9000, 1).works
    assert work.walltime == 9000


@pytest.mark.parametrize(
    ("lasted", "words"),
    [
        (600, ""),  # it was estimated at 1000 s: nothing is new
        (8000, ", with cpu_time 10000 to 89990"),  # the most that a queue takes
    ],
)
def test_its_estimate_neither_falls_nor_exceeds_what_a_queue_takes(
    house: House, lasted: float, words: str
) -> None:
    house.federate(core_power=10, max_walltime=9000)
    task = house.task(jobs=1, cpu_time=10_000, cpu_efficiency=1.0, command=("x",))
    job = end_with_pilot(house, lasted)
    assert last_cause(house, job) == f"tried again, attempt 2 of 3{words}"
    house.take("broker")
    assert house.states(task) == {J.ACTIVATED: 1}
