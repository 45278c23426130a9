"""What follows from each kind of failure: the table that people read, walked row by row (F2, F3, F4)."""

import re
from pathlib import Path
from typing import Any

import pytest

from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.world import StorageFault
from pilotage.model.records.failure_kinds import FAILURE_RULES, FailureKind
from pilotage.model.records.requirements import Requirements
from pilotage.model.records.states import JobState, TaskState

from .house import House
from .test_guards_f2_f3 import black_hole, fail, fetch, two_queues

PAGE = Path(__file__).parents[2] / "docs/how-to/retry.md"
ROW = re.compile(r"\| `(\S+)` \|[^|]*\| (.*) \|")
TABLE: dict[Any, list[str]] = {
    found[1]: found[2].split(" | ") for line in PAGE.read_text().splitlines() if (found := ROW.match(line))
}
NEVER_BEGAN = ("start", "input", "storage", "pilot", "lost")


def test_the_page_has_each_kind_once() -> None:
    assert list(TABLE) == list(FAILURE_RULES)


def values(kind: FailureKind) -> dict[str, Any]:
    """A report of an attempt that failed in such a way, soon."""
    fault = StorageFault(file="out", written=True) if kind == "storage" else None
    return {"kind": kind, "exit_code": None if kind in NEVER_BEGAN else 3, "storage_fault": fault}


def stopped(house: House, kind: FailureKind, attempts: int) -> bool:
    """Return whether a task is stopped as ten of its jobs have failed in such a way."""
    task = house.task(jobs=12, ram=1000, walltime=600, max_attempts=attempts)
    house.take("broker")
    pilot = house.pilot()
    fail(house, pilot, fetch(house, pilot, most=10), **values(kind))
    house.take("stop")
    found = house.store.queries.task(task)
    assert found is not None
    cancel(house.runtime, task, "for a test", "test")
    return found.state is TaskState.FAILED


@pytest.mark.parametrize("kind", TABLE)
def test_f3_a_kind_stops_a_task_as_the_table_says(house: House, kind: FailureKind) -> None:
    told = {(True, True): "yes", (False, False): "no", (False, True): "at the most that it may ask for"}
    assert TABLE[kind][1] == told[stopped(house, kind, 3), stopped(house, kind, 1)]


@pytest.mark.parametrize("kind", TABLE)
def test_f2_a_kind_closes_a_queue_as_the_table_says(house: House, kind: FailureKind) -> None:
    two_queues(house)
    _, north = black_hole(house, **values(kind))
    house.take("broker")
    assert TABLE[kind][2].partition(";")[0] == ("no" if fetch(house, north) else "if fast")


@pytest.mark.parametrize("kind", TABLE)
def test_a_kind_counts_and_changes_the_next_attempt_as_the_table_says(
    house: House, kind: FailureKind
) -> None:
    task = house.task(jobs=1, ram=1000, walltime=600)
    house.take("broker")
    pilot = house.pilot()
    ((job, attempt),) = fetch(house, pilot)
    fail(house, pilot, [(job, attempt)], **values(kind))
    (state,) = house.states(task)
    seen = house.store.queries.job(job)
    assert seen is not None
    counts, *_, following = TABLE[kind]
    number = "2 of 3" if counts.startswith("yes") else "1 of 3 (1 did not count)"
    assert f"tried again, attempt {number}" in seen.events[-1].cause
    asked = Requirements.from_text(house.store.queries.requirements(job))
    assert (asked.memory, state) == (
        1500 if following == "1.5 times the memory" else 1000,
        JobState.PENDING if following.startswith("waits") else JobState.DEFINED,
    )
    assert ("walltime 600 to 900" in seen.events[-1].cause) is (following == "1.5 times the walltime")


def test_f3_equal_jobs_over_their_memory_get_more_and_stop_at_the_most(house: House) -> None:
    """Each attempt of all six is killed for its memory, until no queue allows more."""
    house.federate(max_memory=1200)
    task = house.task(jobs=6, ram=1000, command=("x",))
    for memory in (1000, 1200):
        house.take("broker")
        pilot = house.pilot()
        answer = house.match(pilot)
        assert {work.memory_limit for work in answer.works} == {memory}
        jobs = [(order.job, order.attempt) for work in answer.works for order in work.jobs]
        assert len(jobs) == 6
        for number, job in enumerate(jobs):
            # A shell wraps the kill of its command.
            words = (
                f"memory exceeded: {memory} MB of {memory}, killed by its control group\nsh: {number} killed"
            )
            fail(house, pilot, [job], error=words, exit_code=(-9, 137)[number % 2], kind="memory")
            if memory == 1000:
                assert house.take("stop") == 0
    house.take("stop")
    found = house.store.queries.task(task)
    assert found is not None
    assert found.state is TaskState.FAILED
    assert found.error == (
        "stopped: 6 jobs exceeded the most memory that an attempt may ask for, at north-queue; job 1 was the "
        f"first; with more: pilotage retry {task} --set ram=NUMBER"
    )
    first = house.store.queries.job(1)
    assert first is not None
    assert "; no queue of it allows more than 1200 MB" in first.error.splitlines()[0]
