"""B12 in a running service: the disk I/O of jobs that run now refuses heavy work at a queue, and no other."""

from typing import Any

import pytest

from pilotage.model.documents.world import Report
from pilotage.model.records.states import JobState
from tests.reading import BROKERED, world_of

from .house import House, attempts

J = JobState
LIMIT = 1000


@pytest.fixture(autouse=True)
def limit(house: House) -> None:
    house.federate(max_disk_io=LIMIT)


class Running:
    """Jobs of a task that run at one pilot."""

    def __init__(self, house: House, jobs: int = 1, **spec: Any) -> None:
        self.house = house
        self.task = house.task(jobs=jobs, **spec)
        house.take("broker")
        self.pilot = house.pilot()
        self.take()

    def take(self) -> None:
        """Take the task's jobs, and run them."""
        self.pairs = attempts(self.house.match(self.pilot))
        assert self.pairs
        self.say("running", None)

    def say(self, state: str, *rates: float | None) -> None:
        """Tell the state of the jobs, each with its disk I/O, in one call."""
        told = [
            Report(job=job, attempt=attempt, state=state, disk_io=rate, error="exit 1" * (state == "failed"))  # type: ignore[arg-type]
            for (job, attempt), rate in zip(self.pairs, rates * (len(self.pairs) // len(rates)), strict=True)
        ]
        self.house.tell(self.pilot, *told)


def measured(house: House) -> float | None:
    (report,) = world_of(house.store, BROKERED, house.now, 1, 10).queue_reports
    return report.disk_io


def refused(house: House, **spec: Any) -> set[str]:
    """Broker a new task; the rules that refuse it at the queue."""
    task = house.task(**spec)
    house.take("broker")
    (choice,) = house.store.queries.task_choices(task, 1)
    assert (house.states(task) == {J.PENDING: 1}) == bool(choice.refusals)
    return {refusal.rule for refusal in choice.refusals}


def test_b12_a_running_job_closes_the_queue_to_heavy_work_alone_until_it_ends(house: House) -> None:
    running = Running(house)
    running.say("running", 3000)
    assert measured(house) == 3000
    assert refused(house, disk_io=2000) == {"B12"}
    assert refused(house, disk_io=500) == set()
    running.say("done", 3000)
    assert measured(house) == 0
    assert refused(house, disk_io=2000) == set()


@pytest.mark.parametrize("state", ["done", "failed"])
def test_b12_what_ended_jobs_did_closes_no_queue(house: House, state: str) -> None:
    Running(house, max_attempts=1).say(state, 3000)
    assert refused(house, disk_io=2000) == set()


def test_b12_the_queue_opens_when_the_rate_falls(house: House) -> None:
    running = Running(house)
    running.say("running", 3000)
    assert refused(house, disk_io=2000) == {"B12"}
    running.say("running", 10)
    assert refused(house, disk_io=2000) == set()
    running.say("running", 1001)
    assert refused(house, disk_io=2000) == {"B12"}


def test_b12_the_mean_is_over_the_jobs_that_report(house: House) -> None:
    running = Running(house, jobs=4)
    running.say("running", 3000, 1000, 0, None)
    assert measured(house) == pytest.approx(4000 / 3, abs=0.001)


def test_b12_a_queue_that_reports_nothing_refuses_nothing(house: House) -> None:
    assert refused(house, disk_io=2000) == set()
    running = Running(house)
    assert measured(house) is None
    assert refused(house, disk_io=2000) == set()
    running.say("done", None)
    assert refused(house, disk_io=2000) == set()


def test_b12_a_heartbeat_keeps_the_rate(house: House) -> None:
    running = Running(house)
    running.say("running", 3000)
    house.report(running.pilot, "running", running.pairs)
    assert measured(house) == 3000


@pytest.mark.parametrize("state", ["running", "failed"])
def test_b12_a_further_attempt_starts_without_a_rate(house: House, state: str) -> None:
    running = Running(house)
    running.say("running", 3000)
    old = running.pairs
    running.say("failed", 3000)
    house.now += 3600
    house.take("broker")
    running.take()
    assert [attempt for _, attempt in running.pairs] == [2]
    assert measured(house) is None
    running.say("running", 5)
    running.pairs = old
    running.say(state, 3000)
    assert measured(house) == 5, "what comes late from the attempt before changes nothing"


def test_b12_the_last_rate_in_a_call_counts_also_of_a_job_that_has_just_started(house: House) -> None:
    task = house.task(jobs=2)
    house.take("broker")
    pilot = house.pilot()
    (one, first), (other, second) = attempts(house.match(pilot))
    house.tell(
        pilot,
        *(Report(job=one, attempt=first, state="running", disk_io=rate) for rate in (None, 3000.0, 2000.0)),
        *(Report(job=other, attempt=second, state="running", disk_io=rate) for rate in (None, 9000.0)),
        Report(job=other, attempt=second, state="done", disk_io=700),
    )
    assert house.states(task) == {J.RUNNING: 1, J.FINISHED: 1}
    assert measured(house) == 2000
    ended = house.store.queries.job(other)
    assert ended
    assert ended.disk_io == 700, "the mean of an attempt that has ended stays with it"
