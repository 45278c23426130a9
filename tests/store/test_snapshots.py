"""Each step's world holds what that step reads, and nothing that only waits."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.model.documents.decision import Touch
from pilotage.model.documents.serialization import to_json
from pilotage.model.documents.world import (
    Heartbeat,
    JobCount,
    JobUsage,
    LinkCount,
    QueueReport,
    Report,
    TaskCount,
    TaskQueue,
    World,
)
from pilotage.model.records.federation import Queue
from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState, TaskState, TransferState
from pilotage.model.records.work import File, Measured, MergeSpec, Replica, Requirements, TaskSpec
from pilotage.policies.watchdog.timeouts import watch
from pilotage.store import NoFederation, Store
from pilotage.store.pilots.reports import told_by_pilots
from pilotage.store.pilots.waiting_results import SpooledResults
from pilotage.store.tasks.work import brokered_again, live_work_of, one_task
from pilotage.store.tasks.world import unsplit_tasks
from pilotage.testing import ALICE, NOW
from pilotage.testing.stores import (
    FEDERATION,
    bring,
    create,
    decision,
    elastic,
    move,
    moved,
    new_jobs,
    new_pilot,
    new_task,
    new_transfer,
    passage,
)
from tests.reading import BROKERED, world_of

X, P, T = TransferState, PilotState, TaskState


@pytest.fixture
def house(store: Store) -> Store:
    """A store with a federation."""
    store.save_federation(FEDERATION, "tester")
    return store


def ids(records: Any) -> list[int]:
    return [record.id for record in records]


def files(store: Store, *names: str, **values: Any) -> None:
    create(store, *(File(name=name, size=1, checksum="", **values) for name in names))


def touch(store: Store, kind: Any, record: int, time: float = NOW, **changes: Any) -> None:
    store.commit(decision(Touch(kind=kind, ids=(record,), changes=changes), time=time), "tester")


def filled(world: World) -> set[str]:
    """The parts of a world that hold anything."""
    given = ("time", "seed", "federation", "notification_limits")
    return {name for name in World.__slots__ if name not in given and getattr(world, name)}


def test_without_a_federation_there_is_no_world(store: Store) -> None:
    with pytest.raises(NoFederation, match="no federation yet"):
        world_of(store, "split", NOW, 1, 10)


def test_a_world_has_the_time_the_seed_and_the_newest_federation(house: Store) -> None:
    newer = replace(FEDERATION, plugins={"cms": "production"})
    house.save_federation(newer, "tester")
    assert world_of(house, "split", NOW + 5, 42, 10) == World(time=NOW + 5, seed=42, federation=newer)


def test_split_sees_registered_tasks_oldest_first(house: Store) -> None:
    first, second, third = (new_task(house, priority=n) for n in (1, 2, 3))
    moved(house, move("task", [first], T.REGISTERED, T.RUNNING))
    world = world_of(house, "split", NOW, 1, 1)
    assert ids(world.tasks) == [second]
    assert world.tasks[0].spec.priority == 2
    assert world.tasks[0].owner == ALICE
    assert ids(world_of(house, "split", NOW, 1, 10).tasks) == [second, third]


def test_split_sees_no_more_tasks_than_its_jobs_go_to(house: Store) -> None:
    """Of one that is not split yet ten jobs are counted on, which may all be scouts; of others their turn."""
    small = [new_task(house, jobs=2) for _ in range(3)]
    large = [new_task(house, jobs=5000) for _ in range(4)]
    new = [new_task(house, jobs=5000) for _ in range(3)]
    moved(house, move("task", large, T.REGISTERED, T.SPLITTING))
    bring(house, new_jobs(house, large[0], 30), J.ACTIVATED)
    world = world_of(house, (unsplit_tasks(100, 50), "task_counts"), NOW, 1, 10)
    assert ids(world.tasks) == [*small, *large[:2]]
    assert {(count.task, count.jobs) for count in world.task_counts} == {(large[0], 30)}
    moved(house, move("task", large, T.SPLITTING, T.RUNNING))
    assert ids(world_of(house, (unsplit_tasks(26, 50), "task_counts"), NOW, 1, 10).tasks) == [
        *small,
        *new[:2],
    ]
    assert ids(world_of(house, (unsplit_tasks(26, 50), "task_counts"), NOW, 1, 2).tasks) == small[:2]


def test_broker_sees_defined_jobs_by_priority_then_age_with_their_inputs(house: Store) -> None:
    files(house, "a", "b", "c")
    create(house, Replica(file="b", storage="PIC-disk"), Replica(file="c", storage="PIC-disk"))
    task, urgent, other = new_task(house), new_task(house), new_task(house)
    low = new_jobs(house, task, 2, priority=1)
    high = new_jobs(house, urgent, 2, priority=9, inputs=("b", "a"))
    bring(house, new_jobs(house, other, 3), J.ACTIVATED)
    world = world_of(house, BROKERED, NOW, 1, 4)
    assert ids(world.jobs) == [*high, *low]
    assert [job.inputs for job in world.jobs] == [("b", "a"), ("b", "a"), (), ()]
    assert ids(world.tasks) == [task, urgent]
    assert [file.name for file in world.files] == ["a", "b"]
    assert world.replicas == (Replica(file="b", storage="PIC-disk"),)
    assert world.job_counts == (
        JobCount(queue="", share="default", state=J.DEFINED, jobs=4),
        JobCount(queue="CERN-q", share="default", state=J.ACTIVATED, jobs=3),
    )


def test_a_large_task_that_waits_keeps_no_other_from_the_broker(house: Store) -> None:
    large = new_jobs(house, new_task(house), 20, priority=9)
    small = new_jobs(house, new_task(house), 2, priority=1)
    assert ids(world_of(house, BROKERED, NOW, 1, 10).jobs) == [*large[:5], *small]


def test_broker_can_be_shown_pending_jobs_instead(house: Store) -> None:
    task = new_task(house)
    waiting, _ = new_jobs(house, task, 2)
    moved(house, move("job", [waiting], J.DEFINED, J.PENDING, {"wake_at": NOW + 9}))
    assert ids(world_of(house, BROKERED, NOW, 1, 10).jobs) != [waiting]
    assert ids(world_of(house, "lift", NOW, 1, 10).jobs) == [waiting]


def test_broker_sees_live_transfers_by_link_and_what_queues_last_did(house: Store) -> None:
    files(house, "a", "b", "c")
    a, b, _ = create(house, *(new_transfer(name) for name in "abc"))
    moved(house, *passage([a], X.QUEUED, X.DELIVERING), move("transfer", [b], X.QUEUED, X.FAILED))
    bring(house, new_jobs(house, new_task(house)), J.RUNNING, time=NOW + 1)
    pilot = new_pilot(house)
    moved(house, move("pilot", [pilot], P.CREATED, P.RUNNING, {"heartbeat": NOW + 2}), time=NOW + 2)
    # Within 10 s of the last call nothing is written down.
    touch(house, "pilot", pilot, time=NOW + 3, heartbeat=NOW + 3)
    touch(house, "pilot", pilot, time=NOW + 13, heartbeat=NOW + 13)
    touch(house, "pilot", pilot, time=NOW + 14, heartbeat=NOW + 14)
    touch(house, "pilot", pilot, time=NOW, heartbeat=NOW)
    world = world_of(house, BROKERED, NOW, 1, 10)
    assert world.link_counts == (LinkCount(source="CERN-disk", destination="PIC-disk", files=2, uploads=0),)
    assert world.queue_reports == (
        QueueReport(
            queue="CERN-q", last_pilot=NOW + 13, last_start=NOW + 1, batch_workers=1, running_pilots=1
        ),
    )


def test_explain_sees_placed_jobs_as_if_they_were_defined_and_took_no_room(house: Store) -> None:
    files(house, "a", "b")
    create(house, Replica(file="a", storage="PIC-disk"))
    task, other = new_task(house), new_task(house)
    bring(house, new_jobs(house, other, 3), J.ACTIVATED)
    placed = new_jobs(house, task, 2, inputs=("a",))
    bring(house, placed, J.ACTIVATED)
    (running,) = new_jobs(house, task)
    bring(house, [running], J.RUNNING)
    (pending,) = new_jobs(house, task)
    moved(house, move("job", [pending], J.DEFINED, J.PENDING, {"wake_at": NOW + 9}))
    (done,) = new_jobs(house, task)
    bring(house, [done], J.FINISHED)
    world = world_of(house, brokered_again(task), NOW + 1, 7, 10)
    assert (world.time, world.seed, ids(world.tasks)) == (NOW + 1, 7, [task])
    assert ids(world.jobs) == [*placed, running, pending]
    assert {(job.state, job.queue, job.pilot) for job in world.jobs} == {(J.DEFINED, "", None)}
    assert world.jobs[0].inputs == ("a",)
    assert [file.name for file in world.files] == ["a"]
    assert world.replicas == (Replica(file="a", storage="PIC-disk"),)
    assert world.job_counts == (JobCount(queue="CERN-q", share="default", state=J.ACTIVATED, jobs=3),)
    assert house.queries.jobs(task, None, 1)[0].state == J.ACTIVATED


def test_explain_sees_jobs_that_wait_before_others_and_ended_ones_only_alone(house: Store) -> None:
    task = new_task(house)
    ended = new_jobs(house, task, 3)
    bring(house, ended, J.FINISHED)
    assert ids(world_of(house, brokered_again(task), NOW, 1, 2).jobs) == ended[:2]
    running = new_jobs(house, task, 2)
    bring(house, running, J.RUNNING)
    (waiting,) = new_jobs(house, task)
    world = world_of(house, brokered_again(task), NOW, 1, 2)
    assert ids(world.jobs) == [running[0], waiting]
    assert world.job_counts == (JobCount(queue="CERN-q", share="default", state=J.RUNNING, jobs=1),)


def test_explain_sees_one_job_alone_and_a_task_without_any(house: Store) -> None:
    task, other = new_task(house), new_task(house)
    first, second = new_jobs(house, task, 2)
    world = world_of(house, brokered_again(task, second), NOW, 1, 10)
    assert ids(world.jobs) == [second]
    assert world.job_counts == (JobCount(queue="", share="default", state=J.DEFINED, jobs=1),)
    assert world_of(house, brokered_again(other, first), NOW, 1, 10).jobs == ()
    empty = world_of(house, brokered_again(other), NOW, 1, 10)
    assert (ids(empty.tasks), empty.jobs) == ([other], ())


def assigned(store: Store, task: int, queue: str, *inputs: str) -> int:
    (job,) = new_jobs(store, task, inputs=inputs)
    moved(store, move("job", [job], J.DEFINED, J.ASSIGNED, {"queue": queue}))
    return job


def test_staging_sees_the_jobs_that_wait_for_what_arrived_or_failed(house: Store) -> None:
    files(house, "a", "b", "c", "d")
    task = new_task(house)
    waits_for_a = assigned(house, task, "PIC-q", "a", "d")
    assigned(house, task, "CERN-q", "a")
    waits_for_b = assigned(house, task, "PIC-q", "b")
    assigned(house, task, "PIC-q", "c")
    a, b, c = create(house, *(new_transfer(name) for name in "abc"))
    moved(
        house,
        *passage([a], X.QUEUED, X.DELIVERING),
        *passage([a], X.DELIVERING, X.FINISHING),
        move("transfer", [b], X.QUEUED, X.FAILED, {"error": "gone"}),
    )
    world = world_of(house, "stage", NOW, 1, 10)
    assert ids(world.jobs) == [waits_for_a, waits_for_b]
    assert [(t.id, t.state) for t in world.transfers] == [(a, X.FINISHING), (b, X.FAILED), (c, X.QUEUED)]
    assert [file.name for file in world.files] == ["a", "b", "c", "d"]
    assert ids(world.tasks) == [task]


def test_staging_forgets_a_failed_transfer_that_nobody_waits_for(house: Store) -> None:
    files(house, "a")
    task = new_task(house)
    job = assigned(house, task, "PIC-q", "a")
    (transfer,) = create(house, new_transfer("a"))
    moved(house, move("transfer", [transfer], X.QUEUED, X.FAILED))
    assert ids(world_of(house, "stage", NOW, 1, 10).transfers) == [transfer]
    moved(house, move("job", [job], J.ASSIGNED, J.DEFINED))
    assert not filled(world_of(house, "stage", NOW, 1, 10))
    moved(house, move("job", [job], J.DEFINED, J.ASSIGNED, {"queue": "PIC-q"}), time=NOW + 1)
    assert not filled(world_of(house, "stage", NOW + 1, 1, 10))


def test_staging_sees_jobs_with_outputs_to_bring_and_those_whose_outputs_came(house: Store) -> None:
    task = new_task(house)
    holding, transferring, still = new_jobs(house, task, 3)
    bring(house, [holding], J.HOLDING)
    bring(house, [transferring, still], J.TRANSFERRING)
    for job in (holding, transferring, still):
        files(house, f"out{job}", task=task, job=job)
    arrived, under_way = create(
        house,
        new_transfer(f"out{transferring}", direction="upload"),
        new_transfer(f"out{still}", direction="upload"),
    )
    moved(house, *passage([arrived, under_way], X.QUEUED, X.DELIVERING))
    moved(house, *passage([arrived], X.DELIVERING, X.FINISHING))
    world = world_of(house, "stage", NOW, 1, 10)
    assert ids(world.jobs) == [holding, transferring]
    assert ids(world.transfers) == [arrived, under_way]
    assert [file.job for file in world.files] == [holding, transferring, still]


def test_staging_sees_all_live_transfers_of_the_outputs_of_its_jobs(house: Store) -> None:
    task = new_task(house)
    (job,) = new_jobs(house, task)
    bring(house, [job], J.HOLDING)
    files(house, "out", task=task, job=job)
    (left,) = create(house, new_transfer("out", direction="upload"))
    moved(house, *passage([left], X.QUEUED, X.DELIVERING))
    moved(house, move("transfer", [left], X.DELIVERING, X.QUEUED, {"wake_at": NOW + 99}, next_attempt=True))
    assert ids(world_of(house, "stage", NOW, 1, 10).transfers) == [left]


def test_staging_takes_a_limited_number_of_each_share_and_direction_that_are_due(house: Store) -> None:
    names = [f"f{n}" for n in range(9)]
    files(house, *names)
    made = create(house, *(new_transfer(name, priority=n) for n, name in enumerate(names[:6])))
    upload, other, waiting = create(
        house,
        new_transfer("f6", direction="upload", priority=1),
        new_transfer("f7", share="cms", priority=1),
        new_transfer("f8", share="cms", priority=99),
    )
    moved(house, *passage([waiting], X.QUEUED, X.DELIVERING))
    moved(house, move("transfer", [waiting], X.DELIVERING, X.QUEUED, {"wake_at": NOW + 5}))
    world = world_of(house, "stage", NOW, 1, 3)
    assert ids(world.transfers) == [*made[3:], upload, other]
    # Long past their time-out, all have gained up to the highest priority: the oldest go first.
    aged = world_of(house, "stage", NOW + 7200, 1, 3)
    assert ids(aged.transfers) == [*made, upload, other, waiting]
    assert waiting in ids(world_of(house, "stage", NOW + 5, 1, 3).transfers)


def test_the_director_sees_task_queues_with_work_and_pilots_until_an_hour_after_their_end(
    house: Store,
) -> None:
    task = new_task(house)
    bring(house, new_jobs(house, task, 2, priority=3, requirements="x"), J.ACTIVATED)
    bring(house, new_jobs(house, task, 1, priority=7, requirements="x"), J.ACTIVATED)
    bring(house, new_jobs(house, task, 4, requirements="emptied"), J.SENT)
    live, lately, long_ago = (new_pilot(house) for _ in range(3))
    moved(house, move("pilot", [long_ago], P.CREATED, P.FAILED), time=NOW - 3601)
    moved(house, move("pilot", [lately], P.CREATED, P.FAILED), time=NOW - 3599)
    world = world_of(house, "provision", NOW, 1)
    assert world.task_queues == (TaskQueue(queue="CERN-q", requirements="x", jobs=3, priority=7),)
    assert ids(world.pilots) == [live, lately]
    assert filled(world) == {"task_queues", "pilots", "job_counts"}


def test_the_director_counts_the_jobs_that_may_leave_by_choice_queue_and_what_they_ask_for(
    house: Store,
) -> None:
    task = new_task(house)
    first = elastic(house, task, 3, requirements="x", priority=7)
    elastic(house, task, 2, requirements="y", priority=3)
    bring(house, new_jobs(house, task, 4), J.ACTIVATED)
    moved(house, move("job", first[:1], J.ACTIVATED, J.CANCELLED))
    world = world_of(house, "provision", NOW, 1)
    lines = [
        (one.choice, one.queue, one.requirements, one.jobs, one.priority) for one in world.borrowable_lines
    ]
    assert lines == [(1, "PIC-q", "x", 2, 7), (2, "PIC-q", "y", 2, 3)]
    assert {(one.choice, one.queue) for one in world.candidacies} == {
        (choice, queue) for choice in (1, 2) for queue in ("PIC-q", "CERN-q")
    }
    assert house.snapshots.whole(NOW, 1).borrowable_lines == world.borrowable_lines


def request(pilot: int, max_jobs: int, queue: str = "CERN-q") -> MatchRequest:
    return MatchRequest(
        pilot=pilot,
        queue=queue,
        kind="generic",
        owner=ALICE,
        cores=1,
        memory=2000,
        walltime=3600,
        max_jobs=max_jobs,
    )


def test_what_stands_in_line_is_read_by_priority(house: Store) -> None:
    task = new_task(house)
    low = new_jobs(house, task, 2, priority=1, requirements="x")
    high = new_jobs(house, task, 1, priority=900, requirements="x")
    other = new_jobs(house, task, 1, priority=5, requirements="y")
    assert house.matches.standing("CERN-q").levels == ()
    bring(house, [*low, *high, *other], J.ACTIVATED)
    before = house.matches.standing("CERN-q")
    assert sorted(before.levels) == [("x", 1, 2), ("x", 900, 1), ("y", 5, 1)]
    moved(house, move("job", high, J.ACTIVATED, J.SENT, {"pilot": 1}))
    after = house.matches.standing("CERN-q")
    assert sorted(after.levels) == [("x", 1, 2), ("y", 5, 1)]
    assert after.number == before.number
    bring(house, new_jobs(house, task, 1, priority=7, requirements="y"), J.ACTIVATED)
    assert house.matches.standing("CERN-q").number > after.number


def test_reports_see_the_pilot_its_jobs_and_those_it_speaks_of(house: Store) -> None:
    task = new_task(house)
    pilot, other = new_pilot(house), new_pilot(house)
    mine, named, held, foreign, done = (new_jobs(house, task)[0] for _ in range(5))
    bring(house, [mine], J.RUNNING, pilot=pilot)
    bring(house, [foreign], J.RUNNING, pilot=other)
    bring(house, [done], J.HOLDING, pilot=pilot)
    reports = (Report(job=named, attempt=1, state="running"), Report(job=mine, attempt=1, state="done"))
    world = world_of(
        house, [told_by_pilots([Heartbeat(pilot=pilot, holding=((held, 2),), reports=reports)])], NOW, 1
    )
    assert ids(world.jobs) == [mine, named, held]
    assert ids(world.pilots) == [pilot]
    assert ids(world.tasks) == [task]
    assert world_of(house, [told_by_pilots([Heartbeat(pilot=99)])], NOW, 1).pilots == ()


def test_reports_of_many_pilots_leave_out_jobs_that_these_merely_hold(house: Store) -> None:
    task = new_task(house)
    pilot, other = new_pilot(house), new_pilot(house)
    mine, held, missed, earlier, twice, foreign, done = (new_jobs(house, task)[0] for _ in range(7))
    bring(house, [mine, held, missed, earlier, twice], J.RUNNING, pilot=pilot)
    bring(house, [foreign], J.RUNNING, pilot=other)
    bring(house, [done], J.HOLDING, pilot=pilot)
    reports = (Report(job=mine, attempt=1, state="done"),)
    differing = ((earlier, 7), (twice, 1), (twice, 2), (foreign, 1), (done, 1), (99, 1))
    told = Heartbeat(pilot=pilot, holding=((held, 1), (mine, 1), *differing), reports=reports)
    world = world_of(house, [told_by_pilots([told], quiet=True)], NOW, 1)
    assert world.heartbeats == (replace(told, holding=differing),)
    assert ids(world.jobs) == [mine, missed, earlier, twice, foreign, done]
    assert ids(world.tasks) == [task]


MERGE = MergeSpec(command=("merge",), outputs=("out",))


def test_completion_sees_tasks_of_which_no_job_is_at_work(house: Store) -> None:
    over, busy, unsplit = new_task(house), new_task(house), new_task(house)
    moved(house, move("task", [over, busy], T.REGISTERED, T.RUNNING))
    good, bad = new_jobs(house, over, 2)
    bring(house, [good], J.FINISHED)
    moved(house, move("job", [bad], J.DEFINED, J.FAILED, {"error": "no luck"}))
    new_jobs(house, busy)
    new_jobs(house, unsplit)
    world = world_of(house, "finish", NOW, 1, 10)
    assert ids(world.tasks) == [over]
    assert world.task_counts == (
        TaskCount(task=over, state=J.FAILED, jobs=1),
        TaskCount(task=over, state=J.FINISHED, jobs=1),
    )
    assert [(job.id, job.error) for job in world.jobs] == [(bad, "no luck")]


def test_completion_sees_what_is_to_be_merged(house: Store) -> None:
    task = new_task(house, merge=MERGE)
    moved(house, move("task", [task], T.REGISTERED, T.RUNNING))
    jobs = new_jobs(house, task, 2)
    for job in jobs:
        files(house, f"tasks/test/{task}/{job}/x", task=task, job=job)
    bring(house, jobs, J.HOLDING)
    moved(house, move("job", jobs[:1], J.HOLDING, J.MERGING))
    assert not filled(world_of(house, "finish", NOW, 1, 10))
    moved(house, move("job", jobs[1:], J.HOLDING, J.MERGING))
    world = world_of(house, "finish", NOW, 1, 10)
    assert ids(world.jobs) == jobs
    assert [file.job for file in world.files] == jobs
    moved(house, move("task", [task], T.RUNNING, T.MERGING))
    merge = new_jobs(house, task, kind="merge")
    assert not filled(world_of(house, "finish", NOW, 1, 10))
    bring(house, merge, J.FINISHED)
    world = world_of(house, "finish", NOW, 1, 10)
    assert ids(world.jobs) == jobs
    assert world.files == ()


def test_completion_sees_scouts_that_have_all_ended_with_what_they_used_and_made(house: Store) -> None:
    task, busy = (new_task(house, merge=MERGE) for _ in range(2))
    moved(house, move("task", [task, busy], T.REGISTERED, T.SCOUTING))
    scouts = new_jobs(house, task, 3, kind="scout")
    new_jobs(house, busy, kind="scout")
    bring(house, scouts[:2], J.RUNNING)
    used: Any = {"cpu_seconds": 4.0, "wall_seconds": 5.0, "max_rss": 6.0, "max_workdir": 7.0}
    moved(house, move("job", scouts[:1], J.RUNNING, J.MERGING, used))
    moved(house, move("job", scouts[1:2], J.RUNNING, J.FINISHED))
    moved(house, move("job", scouts[2:], J.DEFINED, J.FAILED, {"error": "no luck"}))
    files(house, f"tasks/test/{task}/{scouts[0]}/x", task=task, job=scouts[0])
    world = world_of(house, "finish", NOW, 1, 10)
    assert ids(world.tasks) == [task]
    assert [(job.id, job.state) for job in world.jobs] == list(
        zip(scouts, (J.MERGING, J.FINISHED, J.FAILED), strict=True)
    )
    assert world.usages == (
        JobUsage(job=scouts[0], **used),
        *(JobUsage(job=scout) for scout in scouts[1:]),
    )
    assert [file.job for file in world.files] == scouts[:1]


def test_completion_sees_what_is_to_be_merged_though_scouts_failed(house: Store) -> None:
    task = new_task(house, merge=MERGE)
    moved(house, move("task", [task], T.REGISTERED, T.SCOUTING))
    good, bad = new_jobs(house, task, 2, kind="scout")
    bring(house, [good], J.HOLDING)
    moved(house, move("job", [good], J.HOLDING, J.MERGING), move("job", [bad], J.DEFINED, J.FAILED))
    files(house, f"tasks/test/{task}/{good}/x", task=task, job=good)
    text = to_json(Measured(finished=1, failed=1)).decode()
    moved(house, move("task", [task], T.SCOUTING, T.SPLITTING, {"measured": text}))
    moved(house, move("task", [task], T.SPLITTING, T.RUNNING))
    assert [file.job for file in world_of(house, "finish", NOW, 1, 10).files] == [good]
    (worse,) = new_jobs(house, task)
    moved(house, move("job", [worse], J.DEFINED, J.FAILED))
    assert world_of(house, "finish", NOW, 1, 10).files == ()


def test_what_was_measured_is_seen_at_once_by_all_who_knew_the_task_before(house: Store) -> None:
    task = new_task(house, ram=5)
    new_jobs(house, task)
    before = world_of(house, BROKERED, NOW, 1, 10).tasks[0]
    assert before.measured is None
    moved(house, move("task", [task], T.REGISTERED, T.SCOUTING))
    measured = Measured(finished=3, failed=1, memory=400, cpu_time=0.1)
    moved(house, move("task", [task], T.SCOUTING, T.SPLITTING, {"measured": to_json(measured).decode()}))
    after = world_of(house, BROKERED, NOW, 1, 10).tasks[0]
    assert after.measured == measured
    assert after.spec == before.spec
    details = house.queries.task(task)
    assert details is not None
    assert (details.spec, details.measured) == (before.spec, measured)


def watched(store: Store, time: float) -> list[int]:
    return ids(world_of(store, "watch", time, 1, 100).jobs)


def pilot_for(store: Store) -> int:
    pilot = new_pilot(store)
    moved(store, move("pilot", [pilot], P.CREATED, P.RUNNING, {"heartbeat": NOW}))
    return pilot


def test_the_watchdog_sees_jobs_that_are_in_their_state_for_too_long(house: Store) -> None:
    limits = FEDERATION.timeouts
    task = new_task(house)
    activated, holding = new_jobs(house, task, 2)
    bring(house, [activated], J.ACTIVATED)
    bring(house, [holding], J.HOLDING)
    assert watched(house, NOW + limits.holding - 1) == []
    assert watched(house, NOW + max(limits.holding, limits.activated)) == [activated, holding]


def test_the_watchdog_sees_urgent_jobs_earlier_where_nothing_started_lately(house: Store) -> None:
    limits = FEDERATION.timeouts
    task = new_task(house)
    urgent = new_jobs(house, task, priority=800)
    bring(house, [*urgent, *new_jobs(house, task, priority=799)], J.ACTIVATED)
    late = NOW + limits.activated_high
    assert watched(house, late - 1) == []
    assert watched(house, late) == urgent
    bring(house, new_jobs(house, task), J.HOLDING, time=late)
    assert watched(house, late) == []


def test_the_watchdog_leaves_queues_that_rest_alone(house: Store) -> None:
    bring(house, new_jobs(house, new_task(house), 2), J.ACTIVATED)
    paused = Queue(name="CERN-q", site="CERN", storage="CERN-disk", status="paused")
    house.save_federation(replace(FEDERATION, queues=(paused, FEDERATION.queues[1])), "tester")
    assert watched(house, NOW + 1e9) == []


def test_the_watchdog_sees_pending_jobs_when_their_hour_is_over(house: Store) -> None:
    jobs = new_jobs(house, new_task(house), 2)
    moved(house, move("job", jobs[:1], J.DEFINED, J.PENDING, {"wake_at": NOW + 10}))
    moved(house, move("job", jobs[1:], J.DEFINED, J.PENDING, {"wake_at": NOW + 20}))
    assert watched(house, NOW + 9) == []
    assert watched(house, NOW + 10) == jobs[:1]
    assert watched(house, NOW + 20) == jobs


def test_the_watchdog_sees_jobs_whose_pilot_ended_or_went_silent(house: Store) -> None:
    task = new_task(house)
    alive, ended, silent = (pilot_for(house) for _ in range(3))
    jobs = {pilot: new_jobs(house, task)[0] for pilot in (alive, ended, silent)}
    for pilot, job in jobs.items():
        bring(house, [job], J.RUNNING, pilot=pilot)
    moved(house, move("pilot", [ended], P.RUNNING, P.FINISHED))
    late = NOW + FEDERATION.timeouts.heartbeat
    touch(house, "pilot", alive, time=late, heartbeat=late)
    assert watched(house, NOW + 1) == [jobs[ended]]
    world = world_of(house, "watch", late, 1, 100)
    assert ids(world.jobs) == [jobs[ended], jobs[silent]]
    assert ids(world.pilots) == [ended, silent]


def test_jobs_that_wait_for_their_results_hide_none_that_is_lost(house: Store) -> None:
    pilot = pilot_for(house)
    *waiting, lost = jobs = new_jobs(house, new_task(house), 3)
    bring(house, jobs, J.RUNNING, pilot=pilot)
    moved(house, move("pilot", [pilot], P.RUNNING, P.FINISHED))
    place: dict[str, Any] = {"queue": "CERN-q", "server": "", "place": "x", "manifest": ""}
    base = place | {"pilot": pilot, "attempt": 1, "size": 1, "since": NOW, "until": NOW + 10, "due": NOW}
    house.results_in_spools.add([SpooledResults(job=job, **base) for job in waiting])
    due = watch(world_of(house, "watch", NOW + 1, 1, 2))
    assert [move.ids for move in due.moves if move.target is J.FAILED] == [(lost,)]
    assert watched(house, NOW + 10) == jobs


def test_cancel_sees_what_is_live_of_one_task(house: Store) -> None:
    task, other = new_task(house), new_task(house)
    live, ended = new_jobs(house, task, 2)
    new_jobs(house, other)
    moved(house, move("job", [ended], J.DEFINED, J.FAILED))
    files(house, "input")
    files(house, "out", task=task, job=live)
    _, upload = create(house, new_transfer("input"), new_transfer("out", direction="upload"))
    world = world_of(house, (one_task(task), live_work_of(task)), NOW, 1)
    assert (ids(world.tasks), ids(world.jobs), ids(world.transfers)) == ([task], [live], [upload])
    assert world_of(house, (one_task(99), live_work_of(99)), NOW, 1).tasks == ()


def test_the_whole_world_is_all_that_is_live_in_order(house: Store) -> None:
    files(house, "a", "b")
    create(house, Replica(file="a", storage="CERN-disk"))
    task, ended = new_task(house), new_task(house)
    moved(house, move("task", [ended], T.REGISTERED, T.FAILED))
    wanted = Requirements.of(TaskSpec(name="any", command=("true",)), ALICE).text
    waiting, running, done = new_jobs(house, task, 3, inputs=("a",), requirements=wanted)
    full, gone, free = pilot_for(house), pilot_for(house), pilot_for(house)
    moved(house, move("pilot", [gone], P.RUNNING, P.FINISHED))
    bring(house, [running], J.RUNNING, pilot=full)
    bring(house, [done], J.FINISHED)
    (transfer,) = create(house, new_transfer("b"))
    world = house.snapshots.whole(NOW + 100, 7)
    assert (ids(world.tasks), ids(world.jobs), ids(world.transfers)) == (
        [task],
        [waiting, running],
        [transfer],
    )
    assert [file.name for file in world.files] == ["a", "b"]
    assert world.requests == (replace(request(free, 1), walltime=3500.0),), "one slot each"
    parts = (
        "tasks jobs files replicas transfers pilots job_counts task_counts link_counts queue_reports requests"
    )
    assert filled(world) >= set(parts.split())
    assert world == house.snapshots.whole(NOW + 100, 7)
