"""Jobs of a task in lists: which are listed, in which order, and how failures are grouped."""

from collections.abc import Mapping, Sequence

import pytest

from pilotage.model.documents.world import Report
from pilotage.model.records.inputs import InputPattern
from pilotage.model.records.states import JobState
from pilotage.model.values.error_lines import telling_line
from pilotage.store import JobPage, JobSort
from pilotage.store.jobs import lists

from .house import House, attempts


def run(house: House, errors: Mapping[int, str], jobs: int, most: int = 1) -> tuple[int, list[int]]:
    """A task whose jobs at these places fail with an error; the others end well."""
    task = house.task(jobs=jobs, max_attempts=most)
    house.take("broker")
    pilot = house.pilot()
    found = sorted(attempts(house.match(pilot)))
    for place, (job, attempt) in enumerate(found):
        house.now += 1
        house.tell(pilot, Report(job=job, attempt=attempt, state="running", error=""))
        house.now += 10 + place
        error = errors.get(place, "")
        house.tell(
            pilot,
            Report(
                job=job,
                attempt=attempt,
                state="failed" if error else "done",
                error=error,
                exit_code=3 if error else 0,
                wall_seconds=10.0 + place,
                max_rss=float(place),
            ),
        )
    house.take("finish")
    return task, [job for job, _ in found]


def ids(house: House, task: int, **page: object) -> list[int]:
    return [job.id for job in house.store.job_lists.page(task, JobPage(**page), house.now)]  # type: ignore[arg-type]


def test_jobs_are_listed_in_pages_by_state_and_by_failure(house: House) -> None:
    task, jobs = run(house, {0: "boom", 3: "boom"}, 5)
    other, _ = run(house, {}, 2)
    assert ids(house, task) == jobs
    assert ids(house, task, failed=True) == [jobs[0], jobs[3]]
    assert ids(house, task, state=JobState.FINISHED) == [jobs[1], jobs[2], jobs[4]]
    assert ids(house, task, after=str(jobs[1]), limit=2) == jobs[2:4]
    assert ids(house, other, failed=True) == []


def test_jobs_tell_their_inputs_where_asked(house: House) -> None:
    for name in ("a.fa", "b.fa"):
        (house.place / "north" / name).write_text("x")
    task = house.task(inputs=(InputPattern(storages=("north-disk",), glob="*.fa"),))
    told = house.store.job_lists.page(task, JobPage(inputs=True), house.now)
    assert [job.inputs for job in told] == [("a.fa",), ("b.fa",)]
    assert {job.inputs for job in house.store.job_lists.page(task, JobPage(), house.now)} == {()}


@pytest.mark.parametrize(
    ("sort", "places"),
    [
        ("run", [4, 3, 2, 1, 0]),
        ("wait", [4, 3, 2, 1, 0]),
        ("memory", [4, 3, 2, 1, 0]),
        ("since", [4, 3, 2, 1, 0]),
        ("attempt", [0, 1, 2, 3, 4]),
        ("exit", [1, 2, 3, 4, 0]),
        ("state", [0, 1, 2, 3, 4]),
        ("queue", [0, 1, 2, 3, 4]),
    ],
)
def test_jobs_are_sorted_by_a_column(house: House, sort: JobSort, places: Sequence[int]) -> None:
    task, jobs = run(house, {0: "boom"}, 5)
    assert ids(house, task, sort=sort) == [jobs[place] for place in places]


def test_waits_and_runs_are_those_of_the_jobs(house: House) -> None:
    begun = house.now
    task, _ = run(house, {0: "boom"}, 2)
    first, second = house.store.job_lists.page(task, JobPage(), house.now)
    assert (first.wait, first.run) == (1, 10)
    assert (second.wait, second.run) == (12, 11)
    assert house.now == begun + 23
    waiting = house.task(jobs=1)
    house.now += 100
    (job,) = house.store.job_lists.page(waiting, JobPage(), house.now)
    assert (job.wait, job.run) == (100, None)


def test_a_job_that_is_tried_again_counts_as_failed_and_does_not_run(house: House) -> None:
    task, jobs = run(house, {0: "boom"}, 2, most=3)
    assert ids(house, task, failed=True) == jobs[:1]
    (job,) = house.store.job_lists.page(task, JobPage(failed=True), house.now)
    assert (job.run, job.reason) == (None, "boom")
    ((group,), left_out) = house.store.job_lists.failed(task)
    assert (group.failed, group.retried, left_out) == (0, 1, 0)


def test_failures_are_grouped_by_error_and_queue_most_jobs_first(house: House) -> None:
    said = "payload exited with code 3\nline 7\nbad record in s{}.fa"
    errors = {place: said.format(place) for place in range(1, 4)} | {0: "lost: its pilot fell silent"}
    task, jobs = run(house, errors, 5)
    groups, left_out = house.store.job_lists.failed(task)
    assert [(one.error, one.queue, one.failed, one.example) for one in groups] == [
        ("bad record in s1.fa", "north-queue", 3, jobs[1]),
        ("lost: its pilot fell silent", "north-queue", 1, jobs[0]),
    ]
    assert left_out == 0


def test_groups_beyond_the_bound_are_counted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "MOST_GROUPS", 1)
    task, _ = run(house, {0: "fire", 1: "water", 2: "fire"}, 4)
    ((group,), left_out) = house.store.job_lists.failed(task)
    assert (group.error, group.failed, left_out) == ("fire", 2, 1)


def test_the_telling_line_is_what_a_payload_said_last() -> None:
    assert telling_line("payload exited with code 1\nTraceback:\n\n  KeyError: 'a'\n") == "KeyError: 'a'"
    assert telling_line("payload exited with code 1") == "payload exited with code 1"
    assert telling_line("an input is gone\nits storage is down") == "an input is gone"
    assert telling_line("") == ""
