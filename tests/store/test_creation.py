"""New records, and what is known already."""

import sqlite3
from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from pilotage.model.documents.decision import Create
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import TransferState
from pilotage.model.records.work import File, NewJob, NewTask, Replica, TaskSpec
from pilotage.store import FileConflict, Store, TaskPage
from pilotage.testing import ALICE
from pilotage.testing.stores import create, decision, move, moved, new_jobs, new_task, new_transfer, passage

X = TransferState
SUM, OTHER = "adler32:00000001", "adler32:00000002"


def file(name: str = "a", size: int = 1, checksum: str = "", job: int | None = None) -> File:
    return File(name=name, size=size, checksum=checksum, job=job, task=None if job is None else 1)


def created(store: Store, *records: File | Replica | NewJob | NewTask) -> tuple[int | None, ...]:
    return store.commit(decision(Create(records=records, cause="c")), "tester").created[0]


def known(store: Store, job: int) -> list[tuple[str, int, str]]:
    return [(f.name, f.size, f.checksum) for f in store.queries.outputs(1) if f.job == job]


def test_ids_come_in_the_order_of_the_records_whatever_their_kinds(store: Store) -> None:
    task = new_task(store)
    job = NewJob(task=task, kind="normal", share="s", priority=1, requirements="r")
    assert created(store, job, file("a"), job, Replica(file="a", storage="x")) == (1, 0, 2, 0)


def test_files_and_replicas_that_are_known_are_left_alone(store: Store) -> None:
    replica = Replica(file="a", storage="x")
    assert created(store, file(checksum=SUM), replica, file(checksum=SUM), replica) == (0, 0, None, None)
    assert created(store, file(checksum=SUM), replica) == (None, None)
    assert created(store, Replica(file="a", storage="y")) == (0,)


@pytest.mark.parametrize("other", [file(size=2, checksum=SUM), file(checksum=OTHER)])
def test_an_input_that_is_known_to_be_otherwise_is_refused(store: Store, other: File) -> None:
    create(store, file(checksum=SUM))
    with pytest.raises(FileConflict, match="a is known with 1 bytes, adler32:00000001, and was given with"):
        create(store, NewTask(spec=TaskSpec(name="t"), owner=ALICE), other)
    assert not store.task_lists.page(TaskPage(limit=10))


def test_files_of_one_decision_must_agree(store: Store) -> None:
    with pytest.raises(FileConflict):
        create(store, file(checksum=SUM), file(checksum=OTHER))


def test_a_checksum_that_was_not_known_is_learned(store: Store) -> None:
    create(store, file())
    create(store, file(checksum=SUM))
    create(store, file())
    with pytest.raises(FileConflict):
        create(store, file(checksum=OTHER))


def test_an_output_of_a_newer_attempt_replaces_the_older_ones(store: Store) -> None:
    (job,) = new_jobs(store, new_task(store))
    create(store, file("out", 1, SUM, job))
    assert created(store, file("out", 5, OTHER, job)) == (None,)
    assert known(store, job) == [("out", 5, OTHER)]


def test_a_replica_of_a_file_that_is_not_known_is_refused(store: Store) -> None:
    with pytest.raises((IntegrityError, sqlite3.IntegrityError)):
        create(store, Replica(file="nowhere", storage="x"))


def test_there_is_one_transfer_of_a_file_to_a_storage_on_its_way(store: Store) -> None:
    create(store, file("a"), file("b"))
    records = (new_transfer("a"), new_transfer("b"), new_transfer("a"), new_transfer("a", "CERN-disk"))
    first = store.commit(decision(Create(records=records, cause="c")), "tester")
    assert first.created == ((1, 2, None, 3),)
    assert len(store.queries.events("transfer", 1)) == 1
    moved(store, *passage([1], X.QUEUED, X.DELIVERING))
    assert store.commit(decision(Create(records=records[:1], cause="c")), "tester").created == ((None,),)
    moved(store, *passage([1], X.DELIVERING, X.FINISHING))
    assert store.commit(decision(Create(records=records[:1], cause="c")), "tester").created == ((4,),)


def test_a_transfer_that_failed_can_be_asked_for_again(store: Store) -> None:
    create(store, file("a"))
    (first,) = create(store, new_transfer("a"))
    moved(store, move("transfer", [first], X.QUEUED, X.FAILED))
    assert create(store, new_transfer("a")) == [first + 1]


def test_new_records_are_in_their_first_state_and_first_attempt(store: Store) -> None:
    task = new_task(store)
    new_jobs(store, task)
    (job,) = store.queries.jobs(task, None, 10)
    assert (job.state, job.attempt, job.queue, job.pilot, job.error) == (J.DEFINED, 1, "", None, "")


def test_d2_a_transfer_that_several_ask_for_has_the_best_share_and_the_best_priority(store: Store) -> None:
    slow = new_transfer("a", share="slow", share_priority=20, priority=20)
    fast = new_transfer("a", share="fast", share_priority=80, priority=8)
    assert create(store, slow, fast) == [1]
    assert create(store, replace(slow, priority=15)) == []

    def standing() -> list[tuple[str, int]]:
        return [(one.share, one.priority) for one in store.queries.transfers(None, 10)]

    assert standing() == [("fast", 20)]
    moved(store, *passage([1], X.QUEUED, X.DELIVERING))
    create(store, replace(fast, priority=70))
    assert standing() == [("fast", 20)]
    counted = store.database.read(
        lambda connection: connection.execute(
            text(
                "SELECT first, state, count FROM counters WHERE counter = 'transfers_by_share' AND count > 0"
            )
        ).all()
    )
    assert [tuple(row) for row in counted] == [("fast", "delivering", 1)]
