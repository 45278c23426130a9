"""Guards in a running service: places where jobs fail fast are closed (F2), hopeless tasks stop (F3)."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import pytest

from pilotage.flow.calls.pilots import match as calls
from pilotage.flow.calls.pilots.pilot_end import end_all
from pilotage.flow.calls.places import circuit_breakers
from pilotage.flow.calls.work.retry import retry
from pilotage.flow.errors import PilotGone
from pilotage.flow.matching.admissions import Admissions
from pilotage.flow.task_cancellation import cancel
from pilotage.model.circuit_breakers.breaker import EVERYBODY
from pilotage.model.circuit_breakers.jobs import job_breakers
from pilotage.model.documents.world import Heartbeat, Report, StorageFault
from pilotage.model.records.federation import ComputingElement, Queue
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.values.identity import Identity
from pilotage.policies.pilots.probes import OPEN
from pilotage.store.matching.match_requests import ClaimResult
from pilotage.store.pilots.reports import told_by_pilots
from tests.reading import world_of

from .house import ALICE, House, attempts
from .test_calls_of_many import match_all

J = JobState
BOB = Identity(name="bob", vo="ligo")
CAROL = Identity(name="carol", vo="ligo")


def two_queues(house: House) -> None:
    """South has a queue too, of the same pilots."""
    found = house.store.federation()
    element = ComputingElement(kind="fake", max_pilots=3)
    south = Queue(
        name="south-queue", site="south", storage="south-disk", num_slots=1000, computing_element=element
    )
    house.store.save_federation(replace(found, queues=(*found.queues, south)), "test")


def fetch(house: House, pilot: int, most: int = 1, node: str = "") -> list[tuple[int, int]]:
    answer = calls.match(house.runtime, pilot, 1000, 0, 86400, most, node=node)
    return attempts(answer)


def fail(house: House, pilot: int, jobs: Iterable[tuple[int, int]], **values: object) -> None:
    for job, attempt in jobs:
        told = {"error": "payload exited with code 1\nOSError: disk 7", "exit_code": 1, "wall_seconds": 2}
        house.tell(pilot, Report(job=job, attempt=attempt, state="failed", **(told | values)))  # type: ignore[arg-type]


def end_well(house: House, pilot: int, jobs: Iterable[tuple[int, int]]) -> None:
    done = (Report(job=job, attempt=attempt, state="done", wall_seconds=2) for job, attempt in jobs)
    house.tell(pilot, *done)


def black_hole(house: House, owner: Identity = ALICE, jobs: int = 40, **values: object) -> tuple[int, int]:
    """A task that does well in the south; five of its jobs fail in the north. Returns task and pilot."""
    task = house.task(owner=owner, jobs=jobs, max_attempts=9)
    house.take("broker")
    south = house.pilot(queue="south-queue")
    end_well(house, south, fetch(house, south, most=100))
    north = house.pilot()
    for _ in range(5):
        fail(house, north, fetch(house, north), **values)
    return task, north


def rules(house: House, task: int) -> set[tuple[str, str, str]]:
    (choice, *_) = house.store.queries.task_choices(task, 1)
    return {(item.rule, item.mend, queue) for item in choice.refusals for queue in item.queues}


def closed_for_half_an_hour(house: House) -> None:
    """Two queues, of which the first is a black hole whose breaker is half-open."""
    two_queues(house)
    black_hole(house)
    house.take("watch")
    house.now += 1800


def test_f2_a_queue_where_five_jobs_failed_fast_is_closed_and_its_jobs_go_elsewhere(house: House) -> None:
    two_queues(house)
    task, north = black_hole(house)
    assert fetch(house, north) == [], "the queue is closed to it"
    assert fetch(house, house.pilot()) == [], "for every pilot of it"
    house.take("watch")
    house.take("broker")
    assert ("F2", "wait", "north-queue") in rules(house, task)
    (choice, *_) = house.store.queries.task_choices(task, 1)
    (refusal,) = [item for item in choice.refusals if item.rule == "F2"]
    assert "5 jobs failed fast, one after the other" in str(refusal.have[0])
    assert "OSError: disk " in str(refusal.have[0])
    assert not choice.placed.get("north-queue")


def test_f2_what_failed_at_one_queue_is_known_where_the_job_runs_next(house: House) -> None:
    two_queues(house)
    black_hole(house)
    house.take("watch")
    house.take("broker")
    south = house.pilot(queue="south-queue")
    held = fetch(house, south, most=100)
    again = {job for job, attempt in held if attempt == 2}
    assert len(again) == 5
    calls = [Heartbeat(pilot=south, holding=tuple(held))]
    told = world_of(house.store, [told_by_pilots(calls)], house.now, 1).failures
    assert {(one.job, one.attempt, one.queue, one.at_queue) for one in told} == {
        (job, 1, "north-queue", "place") for job in again
    }


def is_closed(house: House, task: int, queue: str = "north-queue") -> bool:
    found = job_breakers(house.store.snapshots.failures(house.now), house.store.federation())
    return any(
        one.place == (queue, "")
        and one.holds_for(ALICE.vo, ALICE.name, task)
        and one.state(house.now) == "open"
        for one in found
    )


def test_f2_half_open_one_job_probes_and_its_failure_opens_the_breaker_for_twice_as_long(
    house: House,
) -> None:
    two_queues(house)
    task, _ = black_hole(house, jobs=400)
    for seconds in (1800, 3600, 7200, 14400, 28800, 28800):
        assert fetch(house, house.pilot()) == []
        house.take("watch")
        house.now += seconds - 1
        assert is_closed(house, task)
        house.now += 1
        assert not is_closed(house, task)
        house.take("broker")
        north, other_pilot = house.pilot(), house.pilot()
        tried = fetch(house, north, most=8)
        assert len(tried) == 1, "one job tries"
        assert fetch(house, other_pilot, most=8) == [], "and no other"
        fail(house, north, tried, exit_code=None)


def test_f2_a_lifted_breaker_gives_the_queue_its_jobs_again(house: House) -> None:
    two_queues(house)
    task, north = black_hole(house)
    assert fetch(house, north, most=3) == []
    other = Admissions(house.store)
    lifted = circuit_breakers.lift(house.runtime, "north-queue", "root")
    assert {(one.kind, one.whose[-1]) for one in lifted} == {("queue", task), ("node", task)}
    given = fetch(house, north, most=3)
    assert len(given) == 3, "not one alone, as a probe is"
    pilot = house.store.queries.pilot(north)
    assert pilot is not None
    assert other.admission(pilot, house.now) == OPEN
    house.now += 1
    fail(house, north, given)
    assert circuit_breakers.of_jobs(house.runtime) == (), "three failures are too few to trip it again"


def test_f2_a_probe_that_ends_well_opens_the_queue(house: House) -> None:
    closed_for_half_an_hour(house)
    house.task(jobs=5, queues=("north-queue",))
    house.take("broker")
    north = house.pilot()
    end_well(house, north, fetch(house, north, most=8))
    assert len(fetch(house, house.pilot(), most=8)) > 1


def test_f2_a_probe_that_does_not_fail_fast_opens_the_queue(house: House) -> None:
    closed_for_half_an_hour(house)
    house.task(jobs=5, queues=("north-queue",))
    house.take("broker")
    assert len(fetch(house, house.pilot(), most=8)) == 1
    house.now += 181
    assert len(fetch(house, house.pilot(), most=8)) > 1


def test_f2_nobody_closes_a_queue_to_others_by_jobs_of_his_own_that_fail(house: House) -> None:
    """The attack: a task of which one job ends well and all others fail at once, at a queue of others."""
    two_queues(house)
    _, north = black_hole(house, owner=BOB)
    victim = house.task(owner=ALICE, jobs=2, queues=("north-queue",))
    house.take("broker")
    assert house.states(victim) == {J.ACTIVATED: 2}
    found = fetch(house, north, most=8)
    assert {house.store.queries.job(job).task for job, _ in found} == {victim}  # type: ignore[union-attr]


def test_f2_what_two_owners_have_seen_fail_is_closed_to_everybody(house: House) -> None:
    two_queues(house)
    black_hole(house, owner=ALICE)
    black_hole(house, owner=BOB)
    other = house.task(owner=CAROL, jobs=2)
    house.take("broker")
    assert ("F2", "wait", "north-queue") in rules(house, other)


def test_f2_what_two_owners_broken_tasks_close_while_in_doubt_stays_open_to_others(house: House) -> None:
    """Both run the same program, which cannot work, at the only queue."""
    for owner in (ALICE, BOB):
        house.task(owner=owner, jobs=20)
    house.take("broker")
    first, *others = [house.pilot() for _ in range(7)]
    # Together: what fails while its breaker is open counts nothing.
    for pilot, jobs in [(one, fetch(house, one, most=6)) for one in (first, *others)]:
        fail(house, pilot, jobs)
    assert fetch(house, first) == [], "it is closed to both"
    sound = house.task(owner=Identity(name="carol", vo="ligo"), jobs=2)
    house.take("broker")
    assert house.states(sound) == {J.ACTIVATED: 2}
    found = fetch(house, first, most=8)
    assert {house.store.queries.job(job).task for job, _ in found} == {sound}  # type: ignore[union-attr]


def test_f2_one_bad_node_of_a_good_queue_is_closed_alone(house: House) -> None:
    two_queues(house)
    house.task(jobs=100, max_attempts=9)
    house.take("broker")
    good = [house.pilot() for _ in range(7)]
    for number, pilot in enumerate(good):
        end_well(house, pilot, fetch(house, pilot, node=f"good{number}"))
    bad = house.pilot()
    for _ in range(5):
        fail(house, bad, fetch(house, bad, node="bad"))
    assert fetch(house, bad, node="bad") == []
    assert fetch(house, house.pilot(), node="bad") == [], "nor does another pilot there"
    assert len(fetch(house, good[0])) == 1


def fail_at_one_node(house: House, pilots: int) -> int:
    """The only job of a task fails fast at one node, of a queue with so many pilots; returns its attempts."""
    task = house.task(jobs=1, max_attempts=3)
    for _ in range(pilots - 1):
        fetch(house, house.pilot())
    bad = house.pilot()
    while house.states(task) != {J.FAILED: 1}:
        house.take("broker")
        fail(house, bad, fetch(house, bad, node="bad"))
    (job,) = house.store.queries.jobs(task, None, 1)
    return job.attempt


@pytest.mark.parametrize("pilots", [5, 7])
def test_f2_a_job_that_fails_again_at_one_node_begins_as_often_as_its_task_says(
    house: House, pilots: int
) -> None:
    assert fail_at_one_node(house, pilots) == 3


def test_f2_the_only_node_of_a_queue_gets_a_job_as_often_as_its_task_says(house: House) -> None:
    house.task(jobs=2, max_attempts=3)
    house.take("broker")
    pilot = house.pilot()
    end_well(house, pilot, fetch(house, pilot, node="only"))
    for _ in range(3):
        fetched = fetch(house, pilot, node="only")
        assert len(fetched) == 1
        fail(house, pilot, fetched)
        house.take("broker")


def test_f2_a_task_that_fails_everywhere_is_nobodys_black_hole(house: House) -> None:
    two_queues(house)
    house.task(jobs=40, max_attempts=9)
    house.take("broker")
    for name in ("north-queue", "south-queue"):
        pilot = house.pilot(queue=name)
        for _ in range(6):
            fail(house, pilot, fetch(house, pilot))
    other = house.task(jobs=40)
    house.take("broker")
    assert not [rule for rule, _, _ in rules(house, other) if rule == "F2"]


def test_f2_constants_are_read_anew(house: House) -> None:
    two_queues(house)
    task, north = black_hole(house)
    assert fetch(house, north) == []
    found = house.store.federation()
    house.store.save_federation(replace(found, guard=replace(found.guard, in_a_row=6)), "test")
    house.now += 6
    assert len(fetch(house, north)) == 1
    house.take("broker")
    assert ("F2", "wait", "north-queue") not in rules(house, task)


def test_f3_a_task_whose_first_attempts_fail_alike_is_stopped(house: House) -> None:
    task = house.task(jobs=59, max_attempts=3)
    house.take("broker")
    pilot = house.pilot()
    for number in range(9):
        fail(house, pilot, fetch(house, pilot), error=f"payload exited with code 1\nKeyError: 'row {number}'")
    assert house.take("stop") == 0
    running = fetch(house, pilot, most=2)
    fail(house, pilot, running[:1], error="payload exited with code 1\nKeyError: 'row 10'")
    assert house.take("stop") > 0
    found = house.store.queries.task(task)
    assert found is not None
    assert found.state is TaskState.FAILED
    assert "first 10 attempts, of 10 jobs, all failed alike at north-queue" in found.error
    assert "with exit code 1: KeyError: 'row 0'" in found.error
    assert set(house.states(task)) == {J.CLOSED}
    assert fetch(house, pilot) == []


@pytest.mark.parametrize(
    "told",
    [
        {"kind": "disk"},
        {"kind": "pilot"},
        {"kind": "storage", "storage_fault": StorageFault(file="out", written=True)},
    ],
)
def test_f3_failures_of_nodes_pilots_and_storages_stop_no_task(house: House, told: dict[str, object]) -> None:
    task = house.task(jobs=30, max_attempts=3)
    house.take("broker")
    pilot = house.pilot()
    jobs = fetch(house, pilot, most=22)
    fail(house, pilot, jobs[:12], **told)
    assert house.take("stop") == 0
    # Those of payloads count, alone.
    fail(house, pilot, jobs[12:21])
    assert house.take("stop") == 0
    fail(house, pilot, jobs[21:])
    assert house.take("stop") > 0
    found = house.store.queries.task(task)
    assert found is not None
    assert "first 10 attempts" in found.error


def test_f3_different_ends_or_one_good_end_stop_nothing(house: House) -> None:
    different, good = house.task(jobs=20, max_attempts=3), house.task(jobs=20, max_attempts=3)
    house.take("broker")
    pilot = house.pilot()
    jobs = {task: [] for task in (different, good)}  # type: dict[int, list[tuple[int, int]]]
    for job, attempt in fetch(house, pilot, most=40):
        found = house.store.queries.job(job)
        assert found is not None
        jobs[found.task].append((job, attempt))
    for number, pair in enumerate(jobs[different][:12]):
        fail(house, pilot, [pair], exit_code=1 + number % 2)
    end_well(house, pilot, jobs[good][:1])
    fail(house, pilot, jobs[good][1:])
    assert house.take("stop") == 0


def test_f3_scouts_that_all_fail_alike_stop_their_task_at_their_first_attempts(house: House) -> None:
    task = house.task(command=("false",), jobs=59, scouts=5, max_attempts=3, walltime=100)
    house.take("broker")
    pilot = house.pilot()
    fail(house, pilot, fetch(house, pilot, most=4))
    assert house.take("stop") == 0
    fail(house, pilot, fetch(house, pilot, most=1))
    assert house.take("stop") > 0
    found = house.store.queries.task(task)
    assert found is not None
    assert found.state is TaskState.FAILED


def fail_scouts(house: House, queue: str, node: str = "") -> int:
    """All scouts that a queue's pilot gets fail alike, until it gets none; returns how many attempts did."""
    pilot, failed = house.pilot(queue=queue), 0
    for _ in range(9):
        house.take("broker")
        jobs = fetch(house, pilot, most=9, node=node)
        fail(house, pilot, jobs)
        failed += len(jobs)
        house.take("stop")
        house.take("finish")
        house.take("watch")
    return failed


@pytest.mark.parametrize("scouts", [1, 3, 6])
def test_f3_scouts_that_fail_at_a_broken_queue_are_sent_to_another_one(house: House, scouts: int) -> None:
    two_queues(house)
    number = house.task(command=("false",), jobs=59, scouts=scouts, max_attempts=3, walltime=100)
    assert fail_scouts(house, "north-queue") <= max(3, 2 * scouts)
    assert is_closed(house, number) or scouts == 1
    south = house.pilot(queue="south-queue")
    end_well(house, south, fetch(house, south, most=9))
    assert house.take("finish") > 0
    assert house.store.queries.task(number).state is TaskState.SPLITTING  # type: ignore[union-attr]


def test_f3_scouts_that_fail_alike_at_two_queues_stop_their_task_until_it_is_retried(house: House) -> None:
    two_queues(house)
    number = house.task(command=("false",), jobs=59, scouts=6, max_attempts=3, walltime=100)
    fail_scouts(house, "north-queue")
    fail_scouts(house, "south-queue")
    found = house.store.queries.task(number)
    assert found
    assert (found.state, found.jobs) == (TaskState.FAILED, {J.CLOSED: 6})
    assert "failed alike at north-queue and south-queue, with exit code 1: OSError: disk " in found.error
    assert f"mend it and go on: pilotage retry {number}" in found.error
    retry(house.runtime, number, "user:alice")
    house.take("broker")
    for queue in ("north-queue", "south-queue"):
        pilot = house.pilot(queue=queue)
        end_well(house, pilot, fetch(house, pilot, most=9))
    assert house.take("finish") > 0


def test_f3_scouts_that_fail_at_one_node_of_several_are_tried_at_another(house: House) -> None:
    number = house.task(command=("false",), jobs=59, scouts=6, max_attempts=3, walltime=100)
    good = house.pilot()
    house.take("broker")
    house.report(good, "failed", fetch(house, good, most=0, node="good"))
    fail_scouts(house, "north-queue", node="bad")
    assert house.store.queries.task(number).state is TaskState.SCOUTING  # type: ignore[union-attr]
    end_well(house, good, fetch(house, good, most=9, node="good"))
    assert house.take("finish") > 0


def test_f3_a_task_whose_jobs_run_on_elsewhere_is_not_stopped_its_queue_is_closed(house: House) -> None:
    two_queues(house)
    task = house.task(jobs=40, max_attempts=9)
    house.take("broker")
    south = house.pilot(queue="south-queue")
    house.report(south, "running", fetch(house, south))
    house.now += 60
    north = house.pilot()
    for _ in range(10):
        fail(house, north, fetch(house, north))
    assert house.take("stop") == 0
    assert is_closed(house, task)
    assert not is_closed(house, house.task(jobs=1))
    assert house.states(task)[J.RUNNING] == 1


def queues_of(house: House, task: int) -> set[str]:
    waiting = (J.ACTIVATED, J.SENT, J.RUNNING)
    return {job.queue for job in house.store.queries.jobs(task, None, 100) if job.state in waiting}


def fail_until_it_is_closed(house: House, queue: str) -> int:
    """Jobs fail at a queue until its pilots get no more; returns how many."""
    pilot, failed = house.pilot(queue=queue), 0
    while jobs := fetch(house, pilot):
        fail(house, pilot, jobs)
        failed += len(jobs)
    return failed


def test_f3_a_task_that_failed_at_one_queue_alone_is_not_stopped_before_its_jobs_elsewhere_tell(
    house: House,
) -> None:
    """A black hole is faster than any good queue: ten like failures come before a job has run at another."""
    two_queues(house)
    task = house.task(jobs=60, max_attempts=3)
    house.take("broker")
    assert queues_of(house, task) == {"north-queue", "south-queue"}
    north = [house.pilot() for _ in range(11)]
    for pilot, jobs in [(pilot, fetch(house, pilot)) for pilot in north]:
        fail(house, pilot, jobs)
    assert house.take("stop") == 0
    assert fetch(house, house.pilot()) == [], "the queue is closed to it"
    south = house.pilot(queue="south-queue")
    fail(house, south, fetch(house, south))
    assert house.take("stop") > 0, "it fails wherever it has jobs"
    other = house.task(jobs=60)
    house.take("broker")
    assert not [rule for rule, _, _ in rules(house, other) if rule == "F2"], "and no place is to blame"


def test_f3_what_fails_where_others_do_well_is_in_doubt_until_its_jobs_elsewhere_fail_alike(
    house: House,
) -> None:
    """The node may lack what this task alone needs: it is kept away, and others are not."""
    two_queues(house)
    house.task(jobs=1, queues=("north-queue",))
    house.take("broker")
    well = house.pilot()
    good = fetch(house, well, node="node")
    task = house.task(jobs=60, max_attempts=3)
    house.take("broker")
    assert queues_of(house, task) == {"north-queue", "south-queue"}
    north = [house.pilot() for _ in range(11)]
    for pilot, jobs in [(pilot, fetch(house, pilot, node="node")) for pilot in north]:
        fail(house, pilot, jobs)
    end_well(house, well, good)
    assert house.take("stop") == 0, "it has jobs in the south, which will tell"
    assert is_closed(house, task)
    assert not is_closed(house, house.task(jobs=1))
    south = house.pilot(queue="south-queue")
    fail(house, south, fetch(house, south))
    assert house.take("stop") > 0, "it fails wherever it has jobs"


@pytest.mark.parametrize("owner", [BOB, replace(ALICE, vo="virgo")], ids=["bob", "alice of another VO"])
@pytest.mark.parametrize(("ending", "stopped"), [("OSError: disk 9", False), ("KeyError: 'x'", True)])
def test_f3_where_jobs_of_another_owner_fail_alike_the_place_is_likelier_to_blame(
    house: House, ending: str, stopped: bool, owner: Identity
) -> None:
    task, other = house.task(jobs=20, max_attempts=3), house.task(owner=owner, jobs=2)
    house.take("broker")
    own = {job.id for job in house.store.queries.jobs(task, None, 100)}
    held = [(pilot, fetch(house, pilot, most=8)) for pilot in (house.pilot(), house.pilot(), house.pilot())]
    assert len({job for _, jobs in held for job, _ in jobs} & own) > 10
    for pilot, jobs in held:
        fail(house, pilot, [one for one in jobs if one[0] in own])
        error = f"payload exited with code 1\n{ending}"
        fail(house, pilot, [one for one in jobs if one[0] not in own], error=error)
    assert (house.take("stop") > 0) == stopped
    assert house.store.queries.task(other).state is TaskState.RUNNING  # type: ignore[union-attr]
    house.now += 86_399
    assert house.take("stop") == 0
    house.now += 2
    assert (house.take("stop") > 0) != stopped, "a doubt lasts for a day, in which something would end well"


def test_f3_another_owner_s_failures_where_jobs_of_his_end_well_excuse_nobody(house: House) -> None:
    task = house.task(jobs=20, max_attempts=3)
    house.task(owner=BOB, jobs=4, max_attempts=3)
    house.take("broker")
    own = {job.id for job in house.store.queries.jobs(task, None, 100)}
    pilot = house.pilot()
    held = fetch(house, pilot, most=24)
    bobs = [one for one in held if one[0] not in own]
    assert len(bobs) == 4
    fail(house, pilot, [one for one in held if one[0] in own])
    fail(house, pilot, bobs[1:])
    assert house.take("stop") == 0, "his fail alike, and the place is likelier to blame"
    end_well(house, pilot, bobs[:1])
    assert house.take("stop") > 0
    assert house.store.queries.task(task).state is TaskState.FAILED  # type: ignore[union-attr]


def at_four_queues(house: House) -> tuple[int, list[str]]:
    """A task with jobs at four queues, three of them in the south, and their names."""
    found = house.store.federation()
    element = ComputingElement(kind="fake", max_pilots=3)
    names = ["north-queue", *(f"queue-{number}" for number in range(3))]
    other = Queue(name="", site="south", storage="south-disk", num_slots=1000, computing_element=element)
    queues = (*found.queues, *(replace(other, name=name) for name in names[1:]))
    house.store.save_federation(replace(found, queues=queues), "test")
    task = house.task(jobs=100, max_attempts=3)
    house.take("broker")
    assert queues_of(house, task) == set(names)
    return task, names


def test_f2_a_mistake_whose_last_line_is_never_the_same_closes_no_more_than_two_queues(house: House) -> None:
    """A file with a name drawn by chance, say: each failure is a way of its own, and none comes up twice."""
    _, names = at_four_queues(house)
    letters = ("".join(some) for some in product("abcd", repeat=4))
    closed = []
    for name in names:
        pilot = house.pilot(queue=name)
        for _ in range(7):
            fail(house, pilot, fetch(house, pilot), error=f"no such file: /tmp/{next(letters)}")
        closed.append(fetch(house, pilot) == [])
    assert closed == [True, True, False, False]
    assert fetch(house, house.pilot()) != [], "it failed at four queues: none of them is to blame"


def test_f3_a_task_that_failed_at_three_queues_is_stopped_whatever_waits_at_others(house: House) -> None:
    task, names = at_four_queues(house)
    assert [fail_until_it_is_closed(house, name) for name in names[:2]] == [5, 5]
    assert house.take("stop") == 0, "two bad queues of four"
    last = house.pilot(queue=names[2])
    fail(house, last, fetch(house, last))
    assert house.take("stop") > 0
    assert house.store.queries.task(task).state is TaskState.FAILED  # type: ignore[union-attr]


def test_f2_any_task_s_probe_counts_where_a_place_was_closed_to_everybody(house: House) -> None:
    """It need not have run elsewhere: the place is likelier to blame."""
    two_queues(house)
    black_hole(house, owner=ALICE)
    black_hole(house, owner=BOB)
    house.take("watch")
    house.now += 1800
    only_there = house.task(owner=CAROL, jobs=5, queues=("north-queue",))
    house.take("broker")
    assert house.states(only_there) == {J.ACTIVATED: 5}
    pilot = house.pilot()
    tried = fetch(house, pilot, most=8)
    assert len(tried) == 1
    fail(house, pilot, tried)
    house.now += 3599
    assert fetch(house, house.pilot(), most=8) == [], "its breaker is open twice as long"
    house.now += 1
    assert len(fetch(house, house.pilot(), most=8)) == 1


@pytest.mark.parametrize("together", [False, True])
def test_f2_a_probe_that_was_meant_for_a_pilot_that_ended_is_left_to_another(
    house: House, together: bool
) -> None:
    closed_for_half_an_hour(house)
    house.task(jobs=5, queues=("north-queue",))
    house.take("broker")
    gone, other = house.pilot(), house.pilot()
    assert house.runtime.matching.pilots([gone], house.now, 1)
    end_all(house.runtime, [gone], "idle")
    if together:
        assert match_all(house, [gone]) == {gone: []}
    else:
        with pytest.raises(PilotGone):
            fetch(house, gone)
    assert len(fetch(house, other, most=8)) == 1


def test_f2_a_task_whose_job_was_only_a_spare_has_its_probe_still(house: House) -> None:
    two_queues(house)
    task, _ = black_hole(house)
    house.take("watch")
    house.now += 1800
    bobs = house.task(owner=BOB, jobs=1, queues=("north-queue",))
    house.take("broker")
    jobs = house.store.snapshots.whole(house.now, 1).jobs
    of_alice, of_bob = ([job for job in jobs if job.task == one] for one in (task, bobs))
    admissions, pilot = Admissions(house.store), house.store.queries.pilot(house.pilot())
    assert pilot is not None
    asked = [job.requirements for job in (*of_alice, *of_bob)]
    for given, still_probing in ((of_bob, {("ligo", "alice", task)}), (of_alice, set())):
        assert admissions.admission(pilot, house.now).probing == {("ligo", "alice", task)}
        admissions.settle(admissions.begin(pilot, asked, house.now), given)
        assert admissions.admission(pilot, house.now).probing == still_probing


def test_f2_any_owner_s_job_is_the_probe_of_what_is_closed_to_everybody_once_it_is_given(
    house: House,
) -> None:
    two_queues(house)
    black_hole(house, owner=ALICE)
    black_hole(house, owner=BOB)
    house.take("watch")
    house.now += 1800
    task = house.task(owner=CAROL, jobs=1, queues=("north-queue",))
    house.take("broker")
    carols = [job for job in house.store.snapshots.whole(house.now, 1).jobs if job.task == task]
    admissions, pilot = Admissions(house.store), house.store.queries.pilot(house.pilot())
    assert pilot is not None
    asked = [job.requirements for job in carols]
    for given, is_probed in (([], False), (carols, True)):
        assert EVERYBODY in admissions.admission(pilot, house.now).probing
        admissions.settle(admissions.begin(pilot, asked, house.now), given)
        admission = admissions.admission(pilot, house.now)
        assert (EVERYBODY in admission.closed, EVERYBODY in admission.probing) == (is_probed, not is_probed)


def test_f2_a_probe_whose_job_could_not_be_given_is_left_to_another(house: House) -> None:
    closed_for_half_an_hour(house)
    task = house.task(jobs=1, queues=("north-queue",))
    house.take("broker")
    admissions, pilot = Admissions(house.store), house.store.queries.pilot(house.pilot())
    assert pilot is not None
    before = admissions.admission(pilot, house.now)
    assert before.probing

    def fails() -> list[ClaimResult]:
        assert not admissions.admission(pilot, house.now).probing
        raise ConnectionError

    (job,) = [job for job in house.store.snapshots.whole(house.now, 1).jobs if job.task == task]
    with pytest.raises(ConnectionError):
        admissions.probed(pilot, [job.requirements], house.now, fails)
    assert admissions.admission(pilot, house.now) == before


def tell_each(house: House, pilot: int, jobs: Iterable[tuple[int, int]], bad: set[int]) -> None:
    """Jobs of bad inputs fail, the others end well."""
    for job, attempt in jobs:
        if job in bad:
            fail(house, pilot, [(job, attempt)], error=f"payload exited with code 1\nbad sample_{job}")
        else:
            end_well(house, pilot, [(job, attempt)])


def test_f2_bad_inputs_close_no_queue_and_their_task_goes_on(house: House) -> None:
    """Ten of forty samples are bad, and come first: both queues stay open, to the task and to others."""
    two_queues(house)
    task = house.task(jobs=40, max_attempts=3)
    jobs = [job.id for job in house.store.queries.jobs(task, None, 100)]
    bad = set(jobs[1:12])
    pilots = {name: house.pilot(queue=name) for name in ("north-queue", "south-queue")}
    other = 0
    for turn in range(30):
        house.take("broker")
        for pilot in pilots.values():
            tell_each(house, pilot, fetch(house, pilot, most=2), bad)
        if turn == 3:
            other = house.task(jobs=4)
    assert house.states(other) == {J.FINISHED: 4}
    assert house.states(task) == {J.FINISHED: 29, J.FAILED: 11}


def closed_at_a_node(house: House) -> tuple[int, int, int]:
    """A task that is kept from a node by itself, another of the same owner, and a pilot there."""
    two_queues(house)
    task = house.task(jobs=60, max_attempts=9)
    house.take("broker")
    for number in range(7):
        good = house.pilot()
        end_well(house, good, fetch(house, good, node=f"good{number}"))
    bad = house.pilot()
    for _ in range(5):
        fail(house, bad, fetch(house, bad, node="bad"))
    assert fetch(house, bad, node="bad") == []
    other = house.task(jobs=3)
    house.take("broker")
    return task, other, bad


def test_f2_jobs_of_a_closed_task_are_passed_over_in_the_task_queue_of_another(house: House) -> None:
    """Both tasks ask for the same, so that their jobs stand in one task queue, the closed ones first."""
    _, other, bad = closed_at_a_node(house)
    waiting = sum(job.queue == "north-queue" for job in house.store.queries.jobs(other, None, 9))
    found = fetch(house, bad, most=20, node="bad")
    assert [house.store.queries.job(job).task for job, _ in found] == [other] * waiting  # type: ignore[union-attr]
    assert fetch(house, bad, node="bad") == []


def test_f2_of_several_pilots_together_only_those_at_the_node_pass_over_a_closed_task(house: House) -> None:
    task, other, bad = closed_at_a_node(house)
    good = house.pilot()
    given = match_all(house, [bad, good])
    of = {one: [house.store.queries.job(job).task for job in jobs] for one, jobs in given.items()}  # type: ignore[union-attr]
    assert set(of[bad]) <= {other}
    assert of[good] == [task] * len(of[good]) != []


def test_f2_a_task_without_waiting_jobs_keeps_nobody_waiting_for_its_probe(house: House) -> None:
    two_queues(house)
    task, north = black_hole(house)
    house.take("watch")
    cancel(house.runtime, task, "for a test", "test")
    house.now += 1800
    house.task(jobs=5, queues=("north-queue",))
    house.take("broker")
    assert len(fetch(house, north, most=5)) == 5
