"""What a commit accepts, what it hands back, and what it leaves behind."""

from dataclasses import replace
from itertools import pairwise

import pytest

from pilotage.model.documents.decision import Candidates, Choice, Committed, Create, Decision, Touch, Value
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState, TaskState, TransferState
from pilotage.model.records.work import File, NewJob, NewTransfer, Replica
from pilotage.store import IllegalColumn, IllegalTransition, Store
from pilotage.store.jobs.borrowings import for_queue
from pilotage.testing import NOW
from pilotage.testing.stores import (
    FEDERATION,
    WITHOUT_INPUTS,
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
    states,
)
from tests.reading import world_of


def choice(task: int, jobs: tuple[int, ...] = ()) -> Choice:
    return Choice(
        task=task,
        job_kind="normal",
        jobs=jobs,
        placed={"CERN-q": len(jobs)},
        considered=1,
        candidates=Candidates(queues=("CERN-q",), weights=(1.0,)),
        refusals=(),
    )


def test_an_illegal_transition_is_refused_and_nothing_is_written(store: Store) -> None:
    task = new_task(store)
    (job,) = new_jobs(store, task)
    bad = decision(
        move("job", [job], J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"}),
        move("job", [job], J.ACTIVATED, J.RUNNING),
    )
    with pytest.raises(IllegalTransition, match="a job that is activated cannot become running"):
        store.commit(bad, "tester")
    assert states(store, task) == {job: J.DEFINED}
    assert len(store.queries.events("job", job)) == 1


def test_a_column_that_is_not_for_decisions_is_refused(store: Store) -> None:
    (job,) = new_jobs(store, new_task(store))
    with pytest.raises(IllegalColumn, match="kind"):
        store.commit(decision(move("job", [job], J.DEFINED, J.ACTIVATED, {"kind": "merge"})), "tester")
    with pytest.raises(IllegalColumn, match="queue"):
        store.commit(decision(Touch(kind="job", ids=(job,), changes={"queue": "CERN-q"})), "tester")


def test_records_that_are_not_in_the_source_state_are_handed_back(store: Store) -> None:
    task = new_task(store)
    first, second = new_jobs(store, task, 2)
    bring(store, [first], J.ACTIVATED)
    step = move("job", [first, second, 999], J.DEFINED, J.ACTIVATED, {"queue": "PIC-q"})
    committed = store.commit(decision(step), "tester")
    assert committed == Committed(accepted=((second,),), created=((),), handed_back=2)
    assert [job.queue for job in store.queries.jobs(task, None, 10)] == ["CERN-q", "PIC-q"]


def test_a_record_of_another_attempt_is_handed_back(store: Store) -> None:
    task = new_task(store)
    jobs = new_jobs(store, task, 2)
    bring(store, jobs, J.RUNNING)
    moved(store, move("job", [jobs[0]], J.RUNNING, J.FAILED))
    moved(store, move("job", [jobs[0]], J.FAILED, J.DEFINED, next_attempt=True))
    bring(store, [jobs[0]], J.RUNNING)
    step = move("job", jobs, J.RUNNING, J.HOLDING, attempts=(1, 1))
    assert store.commit(decision(step), "tester").accepted == ((jobs[1],),)
    assert states(store, task) == {jobs[0]: J.RUNNING, jobs[1]: J.HOLDING}


def test_outputs_wait_for_the_end_of_an_upload_of_an_earlier_attempt(store: Store) -> None:
    task = new_task(store)
    jobs = new_jobs(store, task, 2)
    bring(store, jobs, J.HOLDING)

    def upload(job: int, path: str) -> NewTransfer:
        return new_transfer(f"out-{job}", direction="upload", source_path=path)

    first, second = jobs
    (former, _) = create(store, upload(first, "scratch/1.1/out"), upload(second, "scratch/2.1/out"))
    creates = {first: (upload(first, "scratch/1.2/out"),), second: (upload(second, "scratch/2.1/out"),)}
    begin = move("job", jobs, J.HOLDING, J.TRANSFERRING, creates=creates)
    assert store.commit(decision(begin), "tester").accepted == ((second,),), "the same upload serves"
    assert states(store, task)[first] == J.HOLDING
    end = move("transfer", [former], TransferState.QUEUED, TransferState.CANCELLED)
    again = move("job", [first], J.HOLDING, J.TRANSFERRING, creates={first: creates[first]})
    assert store.commit(decision(end, again), "tester").accepted == ((former,), (first,))


def test_one_decision_may_move_a_record_several_times(store: Store) -> None:
    task = new_task(store)
    jobs = new_jobs(store, task, 3)
    steps = [move("job", jobs, source, target) for source, target in pairwise(WITHOUT_INPUTS)]
    moved(store, *steps)
    assert set(states(store, task).values()) == {J.FINISHED}


def test_accepted_ids_keep_the_order_of_the_decision(store: Store) -> None:
    jobs = new_jobs(store, new_task(store), 4)
    order = (jobs[2], jobs[0], jobs[3], jobs[0])
    committed = store.commit(decision(move("job", order, J.DEFINED, J.ACTIVATED)), "tester")
    assert committed.accepted == ((jobs[2], jobs[0], jobs[3]),)
    assert committed.handed_back == 0


def test_changes_are_written_to_every_accepted_record(store: Store) -> None:
    jobs = new_jobs(store, new_task(store), 2)
    bring(store, jobs, J.RUNNING)
    values: dict[str, Value] = {
        "exit_code": 3,
        "cpu_seconds": 1.5,
        "wall_seconds": 2.5,
        "max_rss": 7.0,
        "ended": NOW,
        "error": "no",
    }
    moved(store, move("job", jobs, J.RUNNING, J.FAILED, values), time=NOW + 9)
    for job in jobs:
        found = store.queries.job(job)
        assert found is not None
        assert {name: getattr(found, name) for name in values} == values
        assert found.since == NOW + 9
        assert found.created == NOW


def test_every_transition_leaves_an_event_with_the_attempt_before_it(store: Store) -> None:
    (job,) = new_jobs(store, new_task(store))
    moved(store, move("job", [job], J.DEFINED, J.FAILED), time=NOW + 1)
    moved(store, move("job", [job], J.FAILED, J.DEFINED, next_attempt=True), time=NOW + 2)
    moved(store, move("job", [job], J.DEFINED, J.CANCELLED), time=NOW + 3)
    seen = [
        (e.time - NOW, e.source, e.target, e.attempt, e.cause, e.actor)
        for e in store.queries.events("job", job)
    ]
    assert seen == [
        (0, None, "defined", 1, "made", "tester"),
        (1, "defined", "failed", 1, "test", "tester"),
        (2, "failed", "defined", 1, "test", "tester"),
        (3, "defined", "cancelled", 2, "test", "tester"),
    ]


def test_events_are_as_many_as_accepted_records(store: Store) -> None:
    task = new_task(store)
    jobs = new_jobs(store, task, 5)
    store.commit(decision(move("job", [*jobs, 77], J.DEFINED, J.ACTIVATED)), "tester")
    store.commit(decision(move("job", jobs, J.DEFINED, J.ACTIVATED)), "tester")
    assert [len(store.queries.events("job", job)) for job in jobs] == [2] * 5
    assert store.queries.events("job", 77) == []
    assert [event.target for event in store.queries.events("task", task)] == [TaskState.REGISTERED]


def test_a_touch_sets_columns_of_live_records_and_leaves_no_event(store: Store) -> None:
    live, dead = new_pilot(store), new_pilot(store)
    moved(store, move("pilot", [dead], PilotState.CREATED, PilotState.FAILED))
    touch = Touch(kind="pilot", ids=(live, dead), changes={"heartbeat": NOW + 5, "reference": "x"})
    committed = store.commit(decision(touch), "tester")
    assert committed == Committed(accepted=((live,),), created=((),), handed_back=1)
    pilot = store.queries.pilot(live)
    assert pilot is not None
    assert (pilot.heartbeat, pilot.reference, pilot.state) == (NOW + 5, "x", PilotState.CREATED)
    assert len(store.queries.events("pilot", live)) == 1


def test_a_touch_of_another_attempt_is_handed_back(store: Store) -> None:
    create(store, File(name="a", size=1, checksum=""))
    (transfer,) = create(store, new_transfer("a"))
    touch = Touch(kind="transfer", ids=(transfer,), attempts=(2,), changes={"heartbeat": NOW})
    assert store.commit(decision(touch), "tester").accepted == ((),)


def test_attempts_must_be_as_many_as_ids(store: Store) -> None:
    with pytest.raises(ValueError, match="1 attempts given for 2 jobs"):
        store.commit(decision(move("job", [1, 2], J.RUNNING, J.HOLDING, attempts=(1,))), "tester")


def test_records_that_move_together_have_changes_of_their_own(store: Store) -> None:
    task = new_task(store)
    first, second, third = new_jobs(store, task, 3)
    bring(store, [first, third], J.RUNNING, pilot=new_pilot(store))
    ids = [third, second, first]
    own: dict[int, dict[str, Value]] = {
        id_: {"cpu_seconds": float(id_), "error": f"job {id_}"} for id_ in ids
    }
    together = replace(move("job", ids, J.RUNNING, J.FAILED, {"exit_code": 3, "error": ""}), own_changes=own)
    assert store.commit(decision(together), "tester").accepted == ((third, first),)
    for id_ in (first, third):
        view = store.queries.job(id_)
        assert view is not None
        assert (view.cpu_seconds, view.error, view.exit_code) == (id_, f"job {id_}", 3)
    assert states(store, task)[second] is J.DEFINED


def test_what_records_are_counted_by_is_no_change_of_their_own(store: Store) -> None:
    (job,) = new_jobs(store, new_task(store))
    step = move("job", [job], J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"})
    for column in ("queue", "priority"):
        with pytest.raises(IllegalColumn, match=column):
            store.commit(decision(replace(step, own_changes={job: {column: "PIC-q"}})), "tester")


def test_what_rests_on_a_record_comes_into_being_only_with_it(store: Store) -> None:
    create(store, File(name="a", size=1, checksum=""), File(name="b", size=1, checksum=""))
    task = new_task(store)
    first, second = new_jobs(store, task, 2)
    bring(store, [first], J.ACTIVATED)
    creates = {first: (new_transfer("a"),), second: (new_transfer("b"), new_transfer("b", "CERN-disk"))}
    step = move("job", [first, second], J.DEFINED, J.ASSIGNED, {"queue": "PIC-q"}, creates=creates)
    committed = store.commit(decision(step), "tester")
    assert committed.accepted == ((second,),)
    transfers = store.queries.transfers(None, 10)
    assert [transfer.file for transfer in transfers] == ["b", "b"]
    assert committed.created == ((None, *sorted(transfer.id for transfer in transfers)),)


def test_a_task_and_its_jobs_come_in_one_commit(store: Store) -> None:
    task = new_task(store)
    job = NewJob(task=task, kind="normal", share="s", priority=1, requirements="r", inputs=("a",))
    creates = {task: (job, File(name="a", size=1, checksum=""), Replica(file="a", storage="CERN-disk"), job)}
    committed = moved(store, move("task", [task], TaskState.REGISTERED, TaskState.RUNNING, creates=creates))
    assert committed.created == ((1, 0, 0, 2),)
    assert states(store, task) == {1: J.DEFINED, 2: J.DEFINED}


def test_a_choice_is_kept_once_for_all_jobs_that_moved_with_it(store: Store) -> None:
    task = new_task(store)
    jobs = new_jobs(store, task, 3)
    first = decision(
        move("job", jobs[:2], J.DEFINED, J.PENDING, {"wake_at": NOW + 1}, choice=0),
        move("job", jobs[2:], J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"}, choice=1),
        choices=(choice(task, tuple(jobs[:2])), choice(task, tuple(jobs[2:]))),
    )
    store.commit(first, "broker")
    moved(store, move("job", jobs[:2], J.PENDING, J.DEFINED), time=NOW + 2)
    again = decision(
        move("job", jobs[:2], J.DEFINED, J.ACTIVATED, choice=0), choices=(choice(task),), time=NOW + 2
    )
    store.commit(again, "broker")
    assert [(c.time - NOW, c.jobs) for c in store.queries.task_choices(task)] == [
        (2, ()),
        (0, tuple(jobs[2:])),
        (0, tuple(jobs[:2])),
    ]
    assert [c.jobs for c in store.queries.job_choices(jobs[0])] == [(), tuple(jobs[:2])]
    assert [c.jobs for c in store.queries.job_choices(jobs[2])] == [tuple(jobs[2:])]


def test_a_choice_whose_moves_were_all_handed_back_is_not_kept(store: Store) -> None:
    task = new_task(store)
    jobs = new_jobs(store, task)
    bring(store, jobs, J.ACTIVATED)
    late = decision(
        move("job", jobs, J.DEFINED, J.PENDING, choice=0), choices=(choice(task), choice(task, (9,)))
    )
    store.commit(late, "broker")
    assert [c.jobs for c in store.queries.task_choices(task)] == [(9,)]


def test_a_choice_that_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="choice 1"):
        store.commit(
            decision(move("job", [1], J.DEFINED, J.PENDING, choice=1), choices=(choice(1),)), "tester"
        )


def test_listeners_hear_of_each_commit(store: Store) -> None:
    heard: list[tuple[Decision, Committed]] = []
    store.listeners.append(lambda *what: heard.append(what))
    made = decision(Create(records=(), cause="nothing"))
    committed = store.commit(made, "tester")
    assert heard == [(made, committed)]


def test_an_empty_decision_writes_nothing(store: Store) -> None:
    assert store.commit(decision(), "tester") == Committed()


def test_a_transfer_that_is_tried_again_stands_in_one_place(store: Store) -> None:
    create(store, File(name="a", size=1, checksum=""))
    (transfer,) = create(store, new_transfer("a"))
    x = TransferState
    moved(store, *passage([transfer], x.QUEUED, x.DELIVERING, {"emergency": True, "heartbeat": NOW}))
    again: dict[str, Value] = {"source": "other", "source_path": "p", "wake_at": NOW + 5, "emergency": False}
    moved(store, move("transfer", [transfer], x.DELIVERING, x.QUEUED, again, next_attempt=True))
    (found,) = store.queries.transfers(x.QUEUED, 10)
    assert (found.attempt, found.source, found.source_path, found.wake_at, found.emergency) == (
        2,
        "other",
        "p",
        NOW + 5,
        False,
    )


def test_a_choice_that_moves_nothing_is_kept_once_a_task(store: Store) -> None:
    task = new_task(store)
    job, _ = new_jobs(store, task, 2)
    for seconds in (0, 10, 31):
        store.commit(decision(choices=(choice(task, (seconds,)),), time=NOW + seconds), "tester")
    assert [c.jobs for c in store.queries.task_choices(task)] == [(31,)]
    moving = decision(
        move("job", [job], J.DEFINED, J.PENDING, choice=0), choices=(choice(task, (job,)),), time=NOW + 32
    )
    store.commit(moving, "tester")
    store.commit(decision(choices=(choice(task, (99,)),), time=NOW + 99), "tester")
    assert [c.jobs for c in store.queries.task_choices(task)] == [(99,), (job,)]


def test_without_reasons_choices_are_numbered_their_candidates_kept_and_nothing_else() -> None:
    worlds = []
    for keeps_reasons in (True, False):
        store = Store.open("sqlite:///:memory:", lambda: NOW, keeps_reasons=keeps_reasons)
        store.save_federation(FEDERATION, "tester")
        task = new_task(store)
        waiting = decision(choices=(choice(task, (1,)), choice(task, (2,))))
        store.commit(waiting, "tester")
        jobs = elastic(store, task, 3)
        assert bool(store.queries.task_choices(task)) == keeps_reasons
        assert bool(store.queries.job_choices(jobs[0])) == keeps_reasons
        worlds.append((store.snapshots.newest_choices(), world_of(store, [for_queue("CERN-q")], NOW, 1)))
        store.close()
    with_reasons, without = worlds
    assert with_reasons == without
    assert without[0] == {"CERN-q": 3, "PIC-q": 3}
    assert without[1].candidacies


def test_times_of_a_history_never_decrease(store: Store) -> None:
    (job,) = new_jobs(store, new_task(store), time=NOW + 100)
    moved(store, move("job", [job], J.DEFINED, J.HELD), time=NOW + 50)
    moved(store, move("job", [job], J.HELD, J.DEFINED), time=NOW + 120)
    seen = store.queries.job(job)
    assert seen is not None
    assert [event.time - NOW for event in seen.events] == [100, 100, 120]
