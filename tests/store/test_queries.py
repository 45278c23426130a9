"""What people are shown."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState, TaskState, TransferState
from pilotage.model.records.work import File, Replica
from pilotage.model.values.identity import Identity
from pilotage.store import FederationRenamed, NoFederation, OutputPage, ReplicaView, Store, TaskPage
from pilotage.testing import ALICE, BOB, NOW
from pilotage.testing.stores import (
    FEDERATION,
    bring,
    create,
    move,
    moved,
    new_jobs,
    new_pilot,
    new_task,
    new_transfer,
    passage,
)
from tests.reading import world_of

X, P, T = TransferState, PilotState, TaskState


def ids(records: Any) -> list[int]:
    return [record.id for record in records]


def test_people_see_their_own_tasks_newest_first(store: Store) -> None:
    first, second = new_task(store), new_task(store)
    new_task(store, owner=BOB)
    new_task(store, owner=Identity(name="alice", vo="cms"))
    assert ids(store.task_lists.page(TaskPage(owner=ALICE, limit=10))) == [second, first]
    assert ids(
        store.task_lists.page(TaskPage(owner=Identity(name="alice", vo="atlas", group="other"), limit=1))
    ) == [second]
    assert ids(store.task_lists.page(TaskPage(limit=10))) == [4, 3, 2, 1]
    assert ids(store.task_lists.page(TaskPage(limit=10, after="3"))) == [2, 1]


def test_tasks_can_be_asked_for_by_state(store: Store) -> None:
    first, second = new_task(store), new_task(store)
    moved(store, move("task", [first], T.REGISTERED, T.FAILED, {"error": "bad"}))
    assert [(task.id, task.error) for task in store.task_lists.page(TaskPage(state=T.FAILED, limit=10))] == [
        (first, "bad")
    ]
    assert ids(store.task_lists.page(TaskPage(state=T.REGISTERED, limit=10))) == [second]


def test_a_task_has_what_was_asked_for_and_its_job_counts(store: Store) -> None:
    task = new_task(store, name="mine", share="prod", priority=7, outputs=("x",))
    bring(store, new_jobs(store, task, 3), J.ACTIVATED)
    new_jobs(store, task, 2)
    found = store.queries.task(task)
    assert found is not None
    assert (found.name, found.share, found.priority, found.owner, found.vo) == (
        "mine",
        "prod",
        7,
        "alice",
        "atlas",
    )
    assert found.jobs == {J.ACTIVATED: 3, J.DEFINED: 2}
    assert found.spec.outputs == ("x",)
    assert store.task_lists.page(TaskPage(limit=10))[0].jobs == found.jobs
    assert store.queries.task(99) is None


def test_jobs_of_a_task_come_by_id_and_in_pages(store: Store) -> None:
    task = new_task(store)
    jobs = new_jobs(store, task, 5)
    new_jobs(store, new_task(store))
    bring(store, jobs[1:3], J.RUNNING)
    assert ids(store.queries.jobs(task, None, 3)) == jobs[:3]
    assert ids(store.queries.jobs(task, None, 3, after=jobs[2])) == jobs[3:]
    assert ids(store.queries.jobs(task, J.RUNNING, 10)) == jobs[1:3]


def test_a_job_is_shown_with_its_site_and_history(store: Store) -> None:
    task = new_task(store)
    (job,) = new_jobs(store, task)
    bring(store, [job], J.ACTIVATED)
    before = store.queries.job(job)
    assert before is not None
    assert (before.queue, before.site) == ("CERN-q", "")
    store.save_federation(FEDERATION, "tester")
    found = store.queries.job(job)
    assert found is not None
    assert (found.queue, found.site, found.task) == ("CERN-q", "CERN", task)
    assert [event.target for event in found.events] == [J.DEFINED, J.ACTIVATED]
    assert store.queries.job(99) is None


def test_outputs_are_shown_where_they_lie(store: Store) -> None:
    store.save_federation(FEDERATION, "tester")
    task = new_task(store)
    job, merge = *new_jobs(store, task), *new_jobs(store, task, kind="merge")
    name = f"tasks/test/{task}/{job}/x"
    create(
        store,
        File(name="input", size=9, checksum=""),
        File(name=name, size=1, checksum="adler32:00000001", task=task, job=job),
        File(name="y", size=2, checksum="", task=task, job=merge),
        Replica(file=name, storage="PIC-disk"),
        Replica(file=name, storage="gone"),
    )
    first, second = store.queries.outputs(task)
    assert (first.name, first.size, first.job, first.kind) == (name, 1, job, "normal")
    assert first.replicas == (
        ReplicaView(storage="PIC-disk", url=f"file:///pic/{name}"),
        ReplicaView(storage="gone", url=""),
    )
    assert (second.kind, second.replicas) == ("merge", ())
    assert store.queries.outputs(task, page=OutputPage(limit=1)).rows == [first]
    assert store.queries.outputs(task, page=OutputPage(after=first.file, limit=1)).rows == [second]
    assert not store.queries.outputs(task, page=OutputPage(after=second.file))


def test_payload_files_are_for_a_pilot_that_holds_a_job_of_the_task(store: Store) -> None:
    task = new_task(store, payload_files={"run.sh": "echo"})
    job, sent = new_jobs(store, task, 2)
    bring(store, [job], J.FINISHED, pilot=1)
    bring(store, [sent], J.SENT, pilot=2)
    assert store.queries.payload_files(task, 2) == {"run.sh": "echo"}
    assert store.queries.payload_files(task, 1) is None


def test_pilots_and_transfers_come_newest_first(store: Store) -> None:
    first, second, third = new_pilot(store), new_pilot(store, "PIC-q"), new_pilot(store)
    moved(store, move("pilot", [first], P.CREATED, P.SUBMITTED))
    assert ids(store.queries.pilots(None, None, 10)) == [third, second, first]
    assert ids(store.queries.pilots(P.CREATED, "CERN-q", 10)) == [third]
    assert ids(store.queries.pilots(None, "PIC-q", 10)) == [second]
    assert store.queries.pilot(99) is None
    create(store, File(name="a", size=1, checksum=""), File(name="b", size=1, checksum=""))
    a, b = create(store, new_transfer("a"), new_transfer("b"))
    moved(store, *passage([a], X.QUEUED, X.DELIVERING))
    assert ids(store.queries.transfers(None, 10)) == [b, a]
    assert ids(store.queries.transfers(X.DELIVERING, 10)) == [a]


def test_queues_and_shares_are_shown_with_what_is_there(store: Store) -> None:
    with pytest.raises(NoFederation):
        store.queries.queues()
    store.save_federation(FEDERATION, "tester")
    task = new_task(store)
    bring(store, new_jobs(store, task, 2), J.ACTIVATED)
    bring(store, new_jobs(store, task, 1, share="other"), J.ACTIVATED)
    new_pilot(store)
    create(store, File(name="a", size=1, checksum=""), new_transfer("a"))
    cern, pic = store.queries.queues()
    assert (cern.name, cern.site, cern.jobs, cern.pilots) == (
        "CERN-q",
        "CERN",
        {J.ACTIVATED: 3},
        {P.CREATED: 1},
    )
    assert (pic.jobs, pic.pilots) == ({}, {})
    shares = {
        share.name: (share.target, dict(share.jobs), dict(share.transfers))
        for share in store.queries.shares()
    }
    assert shares == {
        "atlas": (0, {}, {X.QUEUED: 1}),
        "default": (1, {J.ACTIVATED: 2}, {}),
        "other": (0, {J.ACTIVATED: 1}, {}),
    }


def test_each_saved_federation_is_a_new_version(store: Store) -> None:
    with pytest.raises(NoFederation):
        store.federation()
    assert store.save_federation(FEDERATION, "tester") == 1
    assert store.federation() == FEDERATION
    assert store.federation() is store.federation()
    assert store.save_federation(FEDERATION, "tester") == 2


def test_another_process_sees_a_new_federation_at_its_next_look(store: Store, store_url: str) -> None:
    other = Store.open(store_url)
    store.save_federation(FEDERATION, "tester")
    assert world_of(other, "split", NOW, 1, 1).federation == FEDERATION
    other.close()


def test_p6_a_change_is_known_until_a_hundred_more_versions_were_loaded(store: Store) -> None:
    first, *others = FEDERATION.queues
    store.save_federation(FEDERATION, "tester")
    store.save_federation(replace(FEDERATION, queues=(replace(first, max_memory=123), *others)), "tester")
    (changed,) = world_of(store, "split", NOW, 1, 1).queues_changed
    assert changed == first.name
    newest = world_of(store, "split", NOW, 1, 1).federation
    for _ in range(98):
        store.save_federation(newest, "tester")
    assert set(world_of(store, "split", NOW, 1, 1).queues_changed) == {first.name}
    store.save_federation(newest, "tester")
    assert not world_of(store, "split", NOW, 1, 1).queues_changed


def test_a_federation_keeps_its_name(store: Store) -> None:
    store.save_federation(FEDERATION, "tester")
    with pytest.raises(FederationRenamed, match=r"'test', .* keep the name, or give 'other' a store"):
        store.save_federation(replace(FEDERATION, name="other"), "tester")
    assert store.save_federation(replace(FEDERATION, links=()), "tester") == 2
