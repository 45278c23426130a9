"""Large tasks end part by part: no commit holds the only writer for all of their jobs."""

import pytest

from pilotage.flow.calls.data.catalogue import forget
from pilotage.flow.calls.work import submit
from pilotage.flow.calls.work.submit import FILES_AT_ONCE
from pilotage.flow.step import read_world, take
from pilotage.flow.steps import step
from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.decision import Committed, Decision
from pilotage.model.documents.decision_parts import PART
from pilotage.model.documents.world import Report
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import InputFile
from pilotage.model.values.identity import Identity
from pilotage.policies.tasks import splitting

from .house import House, attempts

JOBS = 2 * PART + 500


@pytest.fixture
def moved(house: House) -> list[int]:
    """How many records each commit moved."""
    sizes: list[int] = []

    def listen(_: Decision, committed: Committed) -> None:
        sizes.append(sum(len(ids) for ids in committed.accepted))

    house.store.listeners.append(listen)
    return sizes


def state_of(house: House, task: int) -> TaskState:
    found = house.store.queries.task(task)
    assert found is not None
    return found.state


def test_a_large_task_is_split_in_several_commits_and_is_complete(house: House) -> None:
    """A commit of a million jobs would be idle on PostgreSQL for longer than it lets one be."""
    sizes: list[int] = []
    house.store.listeners.append(lambda _, committed: sizes.append(sum(map(len, committed.created))))
    task = house.task(jobs=JOBS)
    while state_of(house, task) is not TaskState.RUNNING:
        house.take("split")
    made = [size for size in sizes if size > 1]
    assert (sum(made), max(made)) == (JOBS, splitting.SLICE)
    indexes = [job.index for job in house.store.queries.jobs(task, None, JOBS + 1)]
    assert sorted(index for index in indexes if index is not None) == list(range(JOBS))


def test_a_large_task_is_cancelled_in_parts(house: House, moved: list[int]) -> None:
    task = house.task(jobs=JOBS)
    moved.clear()
    assert cancel(house.runtime, task, "because", "user:alice") == JOBS + 1
    assert max(moved) <= PART + 1
    assert house.states(task) == {JobState.CANCELLED: JOBS}
    assert state_of(house, task) is TaskState.CANCELLED


def test_jobs_that_are_made_while_a_task_is_cancelled_are_cancelled_too(house: House) -> None:
    ((_, task),) = house.submit({"jobs": 3 * PART}).tasks
    take(step("split"), house.runtime, house.runtime.begin(1000))

    def split_on(decision: Decision, _: Committed) -> None:
        if decision.step == "cancel":
            house.take("split")

    house.store.listeners.append(split_on)
    cancel(house.runtime, task, "because", "user:alice")
    house.take("split")
    assert house.states(task).keys() == {JobState.CANCELLED}
    assert state_of(house, task) is TaskState.CANCELLED


def test_a_large_task_that_is_stopped_ends_in_parts(house: House, moved: list[int]) -> None:
    house.federate(num_slots=10_000)
    task = house.task(jobs=JOBS, max_attempts=1)
    house.take("broker")
    pilot = house.pilot()
    for job, attempt in attempts(house.match(pilot, most=10)):
        told = Report(job=job, attempt=attempt, state="failed", error="payload exited", exit_code=1)
        house.tell(pilot, told)
    moved.clear()
    house.take("stop")
    assert max(moved) <= PART + 1
    assert house.states(task) == {JobState.CLOSED: JOBS - 10, JobState.FAILED: 10}
    assert state_of(house, task) is TaskState.FAILED


def test_a_task_is_not_stopped_before_the_last_of_its_jobs_is_closed(house: House) -> None:
    """A job that moves on between is seen: none lives on without its task."""
    task = house.task(jobs=40, max_attempts=1)
    house.take("broker")
    pilot = house.pilot()
    for job, attempt in attempts(house.match(pilot, most=10)):
        told = Report(job=job, attempt=attempt, state="failed", error="payload exited", exit_code=1)
        house.tell(pilot, told)
    stop = step("stop")
    world = read_world(stop, house.runtime, house.runtime.begin(1000))
    (phase,) = stop.phases(world, house.runtime.brokerages)
    (late, *_) = attempts(house.match(pilot, most=1))
    house.store.commit(phase.decide(world), "stop")
    assert state_of(house, task) is TaskState.RUNNING
    house.take("stop")
    assert state_of(house, task) is TaskState.FAILED
    found = house.store.queries.job(late[0])
    assert found is not None
    assert found.state is JobState.CLOSED


def test_the_files_of_a_large_task_are_recorded_in_parts(house: House) -> None:
    made: list[int] = []
    house.store.listeners.append(lambda _, committed: made.append(sum(map(len, committed.created))))
    files = tuple(file(f"f{number}") for number in range(2 * FILES_AT_ONCE + 5))
    ((_, task),) = house.submit({"inputs": files}).tasks
    assert max(made) <= 2 * FILES_AT_ONCE + 1, "a file and a replica each, and the task"
    assert len(made) == 3
    assert sum(made) == 2 * len(files) + 1
    assert state_of(house, task) is TaskState.REGISTERED


def test_of_a_large_task_whose_files_contradict_what_is_known_nothing_is_recorded(house: House) -> None:
    last = FILES_AT_ONCE + 5
    house.submit({"inputs": (file(f"f{last}", size=2),)}, owner=Identity(name="bob", vo="ligo"))
    files = tuple(file(f"f{number}") for number in range(last + 1))
    ((_, ((field, message),)),) = house.submit({"inputs": files}).refused
    assert (field, f"f{last} is known with 2 bytes" in message) == ("inputs", True)
    assert house.submit({"inputs": (file("f0", size=3),)}).refused == [], "f0 is not known yet"


@pytest.mark.parametrize("storage", ["", "north-disk"])
def test_a_file_that_is_forgotten_between_two_parts_fails_its_job_and_no_other(
    house: House, monkeypatch: pytest.MonkeyPatch, storage: str
) -> None:
    monkeypatch.setattr(submit, "FILES_AT_ONCE", 2)

    def forgets(decision: Decision, _: object) -> None:
        known = house.store.catalogue.entry("ligo:f0")
        if decision.step == "submit" and known and known.replicas:
            forget(house.runtime, known, storage, "operator")

    house.store.listeners.append(forgets)
    ((_, task),) = house.submit({"inputs": tuple(file(f"f{number}") for number in range(4))}).tasks
    for step_ in ("split", "broker", "stage", "finish"):
        house.take(step_)
    found = house.store.queries.task(task)
    assert found is not None
    assert found.jobs == {JobState.ACTIVATED: 3, JobState.FAILED: 1}
    job = house.store.queries.job(1)
    assert job is not None
    assert job.error.startswith("input ligo:f0 is gone: no storage has it;")


def file(name: str, size: int = 1) -> InputFile:
    return InputFile(name=name, size=size, replicas=("north-disk",))
