"""Which jobs of other queues a pilot takes, held against a slow plain model of the same rule (E1 to E3)."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.circuit_breakers.storages import FailedDelivery
from pilotage.model.documents.world import JobCount, QueueReport, World
from pilotage.model.records.borrowing import Borrowing, Candidacy
from pilotage.model.records.failures import Failure
from pilotage.model.records.federation import Federation, GlobalShare, Link, Storage
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, Job
from pilotage.policies.pilots.borrowing import BorrowableJob, Readers, chosen, offers, record, spares
from pilotage.policies.pilots.matcher import match
from pilotage.policies.pilots.probes import OPEN, Admission
from pilotage.testing import (
    ALICE,
    BOB,
    NOW,
    federation,
    job,
    pilot,
    queue,
    replica,
    request,
    requirements,
    task,
    world,
)
from pilotage.testing.moves import given_to

J = JobState
AFAR = {"HOME": {"remote_reads": True}, "AWAY": {"remote_reads": True}}


def two_queues(rate: float | None = 100, **parts: Any) -> Federation:
    """Q at HOME, where jobs wait, and TAKER at AWAY, with a link from the one to the other."""
    queues = [queue(), queue("TAKER", site="AWAY", **parts.pop("taker", {}))]
    links = [Link(source="HOME", destination="AWAY", throughput_1h=rate)]
    return federation(queues, links=links, **{"storages": AFAR, **parts})


def count(jobs: int, state: JobState = J.ACTIVATED, share: str = "default", at: str = "Q") -> JobCount:
    return JobCount(queue=at, share=share, state=state, jobs=jobs)


def waiting(*jobs: Job, of: Federation | None = None, **contents: Any) -> World:
    """A world in which jobs of a run of 1000 s wait at Q, and TAKER passed in their choice."""
    contents.setdefault("job_counts", [count(len(jobs))])
    contents.setdefault("tasks", [task(walltime=1000)])
    contents.setdefault("candidacies", [Candidacy(choice=1, queue="TAKER", binding="elastic")])
    return world(of or two_queues(), jobs=[replace(one, choice=one.choice or 1) for one in jobs], **contents)


def only(found: World) -> BorrowableJob:
    (offer,) = offers(found, "TAKER")
    return offer


def test_e2_the_wait_is_those_ahead_over_the_slots_of_the_share_times_the_mean_run() -> None:
    counts = [count(11), count(4, J.RUNNING), count(1, J.STARTING), count(9, J.RUNNING, share="other")]
    reports = [QueueReport(queue="Q", mean_run=600.0)]
    found = only(waiting(job(), job_counts=counts, queue_reports=reports)).prediction
    assert (found.ahead, found.wait) == (10, 10 / 5 * 600)
    assert (found.run_there, found.run_here, found.gain) == (1000, 1000, 1200)


def test_e2_without_a_measured_mean_the_job_s_own_estimate_stands_for_it() -> None:
    found = only(waiting(job(), job_counts=[count(11), count(5, J.RUNNING)])).prediction
    assert found.wait == 10 / 5 * 1000


@pytest.mark.parametrize(("started", "wait"), [(None, 3600), (NOW - 7200, 7200), (NOW - 60, 3600)])
def test_e2_while_nothing_runs_the_wait_is_the_time_since_anything_started(
    started: float, wait: float
) -> None:
    reports = [QueueReport(queue="Q", last_start=started)]
    assert only(waiting(job(), queue_reports=reports)).prediction.wait == wait, "it came an hour ago"


def test_e2_three_hundred_seconds_and_a_tenth_of_the_run_are_needed() -> None:
    offer = only(waiting(job(since=NOW - 400)))
    assert (offer.prediction.gain, offer.needed, offer.is_open) == (400, 400, False)
    assert only(waiting(job(since=NOW - 401))).is_open


def test_e2_those_at_the_tail_gain_most_and_go_first() -> None:
    jobs = [job(1, priority=500), job(2, priority=900), job(3, priority=500)]
    counts = [count(3), count(1, J.RUNNING)]
    found = offers(waiting(*jobs, job_counts=counts), "TAKER")
    assert [(one.job.id, one.prediction.ahead) for one in found] == [(3, 2), (1, 1), (2, 0)]


def test_p13_the_tail_of_a_line_is_its_youngest_job_whatever_its_number() -> None:
    jobs = [job(1, created=NOW - 10), job(2, created=NOW - 1000), job(3, created=NOW - 100)]
    counts = [count(3), count(1, J.RUNNING)]
    found = offers(waiting(*jobs, job_counts=counts), "TAKER")
    assert [(one.job.id, one.prediction.ahead) for one in found] == [(1, 2), (3, 1), (2, 0)]


def test_shares_go_first_the_one_that_is_furthest_below_its_target() -> None:
    of = two_queues(shares=(GlobalShare(name="a"), GlobalShare(name="b")))
    counts = [count(2, share="a"), count(2, share="b"), count(5, J.RUNNING, "a"), count(1, J.RUNNING, "b")]
    jobs = [job(1, share="a"), job(2, share="b"), job(3, share="a"), job(4, share="b")]
    found = offers(waiting(*jobs, of=of, job_counts=counts), "TAKER")
    assert [one.job.id for one in found] == [4, 2, 3, 1]


def test_e1_what_is_unbound_goes_last_the_oldest_first_and_needs_no_gain() -> None:
    late = Candidacy(choice=2, queue="TAKER", binding="late")
    jobs = [job(1, choice=2, since=NOW - 1), job(2, choice=2, since=NOW - 5), job(3)]
    found = waiting(*jobs, candidacies=[Candidacy(choice=1, queue="TAKER", binding="elastic"), late])
    assert [one.job.id for one in offers(found, "TAKER") if one.is_open] == [3, 2, 1]


def reading(size: float, of: Federation | None = None, held_at: str = "HOME-DISK", **changes: Any) -> World:
    """A job that waits with an input of so many MB."""
    return waiting(
        job(inputs=("a",), since=NOW - 10_000, **changes),
        of=of,
        files=[File(name="a", size=int(size * 1e6), checksum="")],
        replicas=[replica("a", held_at)],
    )


def test_e2_bytes_that_are_still_to_come_count_there_and_those_to_be_read_count_here() -> None:
    of = two_queues(rate=100)
    back = Link(source="AWAY", destination="HOME", throughput_1h=10)
    of = replace(of, links=(*of.links, back))
    there = only(reading(2000, of, "AWAY-DISK", state=J.ASSIGNED)).prediction
    assert (there.staging, there.arrival, there.read) == (2000, 200, 0)
    alongside = [only(reading(size, of, "AWAY-DISK")).prediction for size in (2000, 12_000)]
    assert [one.arrival for one in alongside] == [0, 200], "what is not brought is read while it runs"
    here = only(reading(50_000, of)).prediction
    assert (here.staging, here.read, here.here) == (0, 500, 1000)


@pytest.mark.parametrize(
    ("size", "of", "obstacle"),
    [
        (100_000, None, ""),
        (100_001, None, "reading takes 1000 s"),
        (10, two_queues(rate=None), "no rate is known of the link from HOME"),
        (10, two_queues(storages={}), "its pilots can read an input from nowhere"),
        (10, two_queues(storages={"HOME": {"remote_reads": True, "tape": True}}), "from nowhere"),
        (10, two_queues(storages={"HOME": {"remote_reads": True, "blacklisted": ("read_wan",)}}), "nowhere"),
    ],
)
def test_e3_nothing_is_read_for_longer_than_the_run_nor_from_where_it_may_not(
    size: float, of: Federation | None, obstacle: str
) -> None:
    found = only(reading(size, of)).obstacle
    assert obstacle in found
    assert bool(found) == bool(obstacle)


def test_f4_nothing_is_read_from_afar_out_of_a_storage_with_an_open_breaker() -> None:
    failed = tuple(
        FailedDelivery(
            transfer=number, attempt=1, file=f"f{number}", source="HOME-DISK", destination="",
            time=NOW - 3 + number, error="no answer",
        )
        for number in range(3)
    )  # fmt: skip
    closed = replace(reading(10), failed_deliveries=failed)
    assert "or from storages with open circuit breakers alone" in only(closed).obstacle
    assert only(replace(closed, failed_deliveries=failed[:2])).is_open
    second = Storage(name="OTHER", site="HOME", url="file:///other", remote_reads=True)
    both = replace(two_queues(), storages=(*two_queues().storages, second))
    other = replace(reading(10, both), replicas=(replica("a", "HOME-DISK"), replica("a", "OTHER")))
    assert only(replace(other, failed_deliveries=failed)).is_open


def test_e3_readers_that_hold_the_rate_of_a_link_keep_others_from_it() -> None:
    reader = Borrowing(
        job=9, attempt=1, time=NOW, preferred="Q", queue="TAKER", site="AWAY", binding="elastic",
        ahead=0, staging=0, ends_there=NOW, ends_here=NOW, reads={"HOME": 60.0},
    )  # fmt: skip
    one = replace(reading(20_000), borrowings=(reader,))
    assert only(one).prediction.read == 20_000 / 40
    both = replace(one, borrowings=(reader, replace(reader, job=10)))
    assert "hold its 100 MB/s already" in only(both).obstacle


def sent(found: World) -> list[int]:
    """The jobs that pilots of a world are given."""
    return [id_ for ids in given_to(found.jobs, match(found)).values() for id_ in ids]


def many_readers(jobs: int = 150, run: float = 3600, rate: float = 1) -> World:
    """Jobs that wait with an input of 100 MB each, beyond a link of so many MB/s."""
    names = [f"f{number}" for number in range(1, jobs + 1)]
    return waiting(
        *(job(number, inputs=(name,), since=NOW - 10_000) for number, name in enumerate(names, start=1)),
        of=two_queues(rate=rate),
        tasks=[task(walltime=run)],
        files=[File(name=name, size=100_000_000, checksum="") for name in names],
        replicas=[replica(name, "HOME-DISK") for name in names],
    )


def test_e3_the_jobs_of_one_look_hold_no_more_than_their_link_carries() -> None:
    found = [one for one in offers(many_readers(), "TAKER") if one.is_open]
    assert len(found) == 150
    readers, at = Readers(), queue("TAKER", site="AWAY")
    taken: list[BorrowableJob] = []
    for number in range(50):
        left = [one for one in found if one not in taken]
        asking = request(pilot=number, cores=4, memory=0, max_jobs=4)
        mine = chosen(left, asking, pilot(), OPEN, readers)
        if mine:
            beside = spares(left, mine, asking, pilot(), OPEN, readers)
            held = sum(record(one, at, NOW).reads["HOME"] for one in (*taken, *mine, *beside))
            assert held <= 1.0001, "spares too"
        taken += mine
    assert len(taken) in (35, 36), "36 of 100 MB in an hour make 1 MB/s"


def test_e3_what_reads_nothing_is_taken_where_links_are_full() -> None:
    world = many_readers(jobs=40, run=100, rate=1)
    plain = replace(world, jobs=(*world.jobs, replace(world.jobs[0], id=99, inputs=())))
    found = [one for one in offers(plain, "TAKER") if one.is_open]
    readers = Readers()
    taken = chosen(found, request(cores=50, memory=0, max_jobs=50), pilot(), OPEN, readers)
    assert sorted(bool(one.reads) for one in taken) == [False, True]


def test_e3_a_saved_world_s_plan_keeps_to_the_rate_of_the_link() -> None:
    at, world = ("TAKER", "AWAY"), many_readers()
    pilots = [pilot(number, queue=at[0]) for number in range(1, 101)]
    asking = [request(pilot=one.id, queue=at[0]) for one in pilots]
    assert len(sent(replace(world, pilots=tuple(pilots), requests=tuple(asking)))) in (35, 36)


def test_f2_a_place_whose_rest_is_over_is_tried_by_one_job_its_own_or_a_borrowed_one() -> None:
    failed = [
        Failure(
            job=90 + number,
            attempt=1,
            task=8 + number % 2,
            owner=ALICE.name,
            vo=ALICE.vo,
            queue="TAKER",
            node=f"n{number}",
            pilot=number,
            pilots=5,
            lasted=5,
            time=NOW - 1900,
            at_queue="place",
        )
        for number in range(5)
    ]
    own = job(2, queue="TAKER")
    found = waiting(job(1, since=NOW - 10_000), failures=failed)
    asking = request(queue="TAKER", cores=2, max_jobs=2)
    found = replace(found, jobs=(*found.jobs, own), pilots=(pilot(queue="TAKER"),), requests=(asking,))
    assert sent(replace(found, failures=())) == [2, 1]
    assert sent(found) == [2]
    borrowable = waiting(job(1, since=NOW - 10_000), job(3, since=NOW - 10_000), failures=failed)
    pilots = (pilot(1, queue="TAKER"), pilot(2, queue="TAKER"))
    requests = tuple(request(queue="TAKER", pilot=one.id) for one in pilots)
    borrowable = replace(borrowable, pilots=pilots, requests=requests)
    assert len(sent(replace(borrowable, failures=()))) == 2
    assert len(sent(borrowable)) == 1, "and no other pilot borrows before it has told"


def test_e3_what_was_tried_before_is_not_read_from_afar() -> None:
    assert "tried before" in only(reading(10, attempt=2)).obstacle
    assert only(waiting(job(attempt=2, since=NOW - 10_000))).is_open


@pytest.mark.parametrize("status", ["offline", "paused"])
def test_a_queue_that_starts_nothing_borrows_nothing(status: str) -> None:
    assert offers(waiting(job(), of=two_queues(taker={"status": status})), "TAKER") == ()


def test_a_pilot_takes_what_fits_it_and_what_its_owner_may_run() -> None:
    jobs = [
        job(1, requirements=requirements(memory=9000)),
        job(2, requirements=requirements(BOB)),
        job(3, requirements=requirements(private=True)),
        job(4, requirements=requirements(gpus=1)),
    ]
    found = offers(waiting(*jobs), "TAKER")
    asking = request(memory=2000, max_jobs=5, cores=5)
    assert [one.job.id for one in chosen(found, asking, pilot(), OPEN, Readers())] == [2]
    closed = Admission(closed=frozenset([(BOB.vo, BOB.name, 0)]))
    assert chosen(found, asking, pilot(), closed, Readers()) == []


def plainly(found: World) -> list[int]:
    """The order in which open offers go, by the words of the rule."""
    running = sum(one.jobs for one in found.job_counts if one.state is J.RUNNING)
    (report,) = found.queue_reports
    gains: list[tuple[float, int]] = []
    line = sorted(found.jobs, key=lambda one: (-one.priority, one.id))
    total = sum(one.jobs for one in found.job_counts if one.state is J.ACTIVATED)
    for place, one in enumerate(line):
        ahead = total - len(line) + place
        wait = ahead / running * (report.mean_run or 1000) if running else NOW - one.since
        gain = wait + 1000 - 1000 - 300 - 100
        if gain > 0:
            gains.append((-gain, -one.id))
    return [-number for _, number in sorted(gains)]


@given(
    st.lists(st.tuples(st.sampled_from([100, 500, 900]), st.integers(0, 5000)), min_size=1, max_size=12),
    st.integers(0, 6),
    st.integers(0, 30),
    st.sampled_from([None, 50.0, 4000.0]),
)
def test_e2_the_same_jobs_go_in_the_same_order_as_by_a_plain_model(
    line: list[tuple[int, int]], running: int, before: int, mean: float | None
) -> None:
    jobs = [
        job(number, priority=priority, since=NOW - age)
        for number, (priority, age) in enumerate(line, start=1)
    ]
    found = waiting(
        *jobs,
        job_counts=[count(len(jobs) + before), count(running, J.RUNNING)],
        queue_reports=[QueueReport(queue="Q", mean_run=mean)],
    )
    assert [one.job.id for one in offers(found, "TAKER") if one.is_open] == plainly(found)
