"""What ended long ago goes to files and leaves the store; what lives, and all numbers, stay as they are."""

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, func, select
from typer.testing import CliRunner

from pilotage.cli.app import app
from pilotage.flow.loops.archiving import ArchiveFile, archive_alone, archiving
from pilotage.model.documents.decision import Candidates, Choice
from pilotage.model.records.audit import NewAuditRecord
from pilotage.model.records.publications import NewPublication
from pilotage.model.records.states import JobState, PilotState, PublicationState, TaskState, TransferState
from pilotage.model.records.work import File
from pilotage.ports.presence import Presence
from pilotage.store import ARCHIVE, ArchivedElsewhere, AuditQuery, LeaseLost, Slice, Store
from pilotage.store.history.decisions import decisions
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.table import job_inputs
from pilotage.store.records import RECORDS
from pilotage.store.tasks.table import volumes_of
from pilotage.testing.records import ALICE, NOW
from pilotage.testing.stores import (
    FEDERATION,
    bring,
    create,
    decision,
    move,
    moved,
    new_jobs,
    new_pilot,
    new_task,
    new_transfer,
)
from tests.flow.test_servers_gone import Named
from tests.waiting import wait_for

DAY = 86400.0
BEFORE = NOW + 1


def archive(
    store: Store, before: float, write: Callable[[Sequence[bytes]], None], presence: Presence | None = None
) -> Iterator[Slice]:
    """Archive as a server does, until all has gone."""
    return archive_alone(store, presence or Named("test"), before, write)


def ended_task(store: Store, jobs: int = 3, name: str = "t") -> tuple[int, list[int]]:
    """A finished task whose jobs were brokered with a reason, ran and finished at NOW."""
    task = new_task(store, name=name)
    ids = new_jobs(store, task, jobs, inputs=("a", "b"))
    reason = Choice(
        task=task,
        job_kind="normal",
        jobs=tuple(ids),
        placed={"CERN-q": jobs},
        considered=2,
        candidates=Candidates(),
        refusals=(),
    )
    placing = move("job", ids, JobState.DEFINED, JobState.ACTIVATED, {"queue": "CERN-q"}, choice=0)
    store.commit(decision(placing, choices=(reason,)), "broker:production")
    states = (JobState.ACTIVATED, JobState.SENT, JobState.RUNNING, JobState.FINISHED)
    moved(store, *(move("job", ids, a, b) for a, b in pairwise(states)))
    task_states = (TaskState.REGISTERED, TaskState.RUNNING, TaskState.FINISHED)
    moved(store, *(move("task", [task], a, b) for a, b in pairwise(task_states)))
    return task, ids


def records(store: Store) -> dict[str, int]:
    tables: dict[str, Table] = {"choice": decisions, "input": job_inputs}
    tables.update((kind, table) for kind, table in RECORDS.items())
    queries = {kind: select(func.count()).select_from(table) for kind, table in tables.items()}
    return store.database.read(
        lambda connection: {kind: connection.execute(query).scalar_one() for kind, query in queries.items()}
    )


def real_counts(store: Store) -> dict[tuple[str, ...], int]:
    sums: Counter[tuple[str, ...]] = Counter()
    for *key, count in store.database.read(lambda c: c.execute(select(counts)).all()):
        sums[tuple(key)] += count
    return {key: count for key, count in sums.items() if count}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


@pytest.fixture
def aged(store: Store) -> Store:
    """A store with something that ended, something that lives, and something that ended later."""
    store.save_federation(FEDERATION, "test")
    create(store, *(File(name=name, size=1, checksum="") for name in "abcde"))
    return store


def test_what_ended_long_ago_is_written_and_deleted_and_nothing_else(aged: Store, tmp_path: Path) -> None:
    task, ids = ended_task(aged)
    (gone, stays) = create(aged, new_transfer("a"), new_transfer("b"))
    x = TransferState
    moved(aged, move("transfer", [gone], x.QUEUED, x.CANCELLED))
    dead, alive = new_pilot(aged), new_pilot(aged)
    moved(aged, move("pilot", [dead], PilotState.CREATED, PilotState.FAILED))
    lost, _ = create(
        aged, *(NewPublication(task=task, dataset="r~s:d", asked=NOW, file=file) for file in "ab")
    )
    waiting, failed = PublicationState.WAITING, PublicationState.FAILED
    moved(aged, move("publication", [lost], waiting, failed))
    half = new_task(aged)
    live = new_jobs(aged, half, 2)
    bring(aged, live[:1], JobState.FINISHED)
    moved(aged, move("task", [half], TaskState.REGISTERED, TaskState.CANCELLED))
    later = new_task(aged)
    late = move("task", [later], TaskState.REGISTERED, TaskState.CANCELLED)
    aged.commit(decision(late, time=NOW + DAY), "test")

    file = ArchiveFile(tmp_path / "archive", "test", NOW)
    assert [found.kind for found in archive(aged, BEFORE, file.write)] == [
        "job",
        "choice",
        "task",
        "transfer",
        "pilot",
        "publication",
    ]
    assert file.path is not None
    assert file.path.stat().st_mode & 0o777 == 0o600
    written = lines(file.path)
    jobs = [line for line in written if line["record"] == "job"]
    assert [(job["id"], job["task"], job["inputs"], job["state"]) for job in jobs] == [
        (id_, task, ["a", "b"], "finished") for id_ in ids
    ]
    assert [event["target"] for event in jobs[0]["events"]] == [
        "defined",
        "activated",
        "sent",
        "running",
        "finished",
    ]
    by_kind = {line["record"]: line for line in written}
    assert by_kind["choice"]["placed"] == {"CERN-q": 3}
    assert by_kind["task"]["id"] == task
    assert by_kind["task"]["spec"]["name"] == "t"
    assert (by_kind["transfer"]["id"], by_kind["pilot"]["id"]) == (gone, dead)
    assert (by_kind["publication"]["id"], by_kind["publication"]["state"]) == (lost, "failed")

    left = {
        "task": 2,
        "job": 2,
        "transfer": 1,
        "pilot": 1,
        "publication": 1,
        "notification": 0,
        "choice": 0,
        "input": 0,
    }
    assert records(aged) == left
    assert aged.queries.job(live[1]) is not None
    assert aged.queries.job(ids[0]) is None
    assert [pilot.id for pilot in aged.queries.pilots(None, None, 9)] == [alive]
    assert [transfer.id for transfer in aged.queries.transfers(None, 9)] == [stays]
    assert ("jobs_by_task", str(task), "", "finished") not in real_counts(aged)
    assert real_counts(aged)["jobs_by_task", str(half), "", "finished"] == 1
    assert aged.archive.next(BEFORE, 10) is None


def test_numbers_are_not_given_again_when_the_last_records_are_gone(aged: Store) -> None:
    task, ids = ended_task(aged)
    for _ in archive(aged, BEFORE, lambda _lines: None):
        pass
    assert records(aged)["job"] == 0
    assert new_task(aged) == task + 1
    assert new_jobs(aged, task + 1, 1) == [ids[-1] + 1]
    assert aged.queries.events("job", ids[-1] + 1)[0].cause == "made"


def test_slices_are_bounded_and_a_task_goes_after_all_its_jobs(aged: Store) -> None:
    ended_task(aged, 5)
    assert aged.leases.take(ARCHIVE, "test", NOW, lambda _: False)
    found: list[tuple[str, int]] = []
    while (part := aged.archive.next(BEFORE, 2)) is not None:
        aged.archive.delete(part, "test")
        aged.archive.delete(part, "test")  # Whoever deletes what another has deleted changes nothing.
        found.append((part.kind, len(part.ids)))
    assert found == [("job", 2), ("job", 2), ("job", 1), ("choice", 1), ("task", 1)]
    assert {key: count for key, count in real_counts(aged).items() if key[0].startswith("jobs")} == {}


def test_nothing_is_deleted_that_could_not_be_written(aged: Store) -> None:
    ended_task(aged)
    before = records(aged)

    def full(_lines: Any) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        list(archive(aged, BEFORE, full))
    assert records(aged) == before


def test_one_process_archives_at_a_time_and_another_takes_over_from_one_that_is_gone(aged: Store) -> None:
    """The one that was taken for gone deletes nothing more."""
    for name in "tu":
        ended_task(aged, name=name)
    first = archive(aged, BEFORE, lambda _: None, Named("first"))
    next(first)
    with pytest.raises(ArchivedElsewhere):
        next(archive(aged, BEFORE, lambda _: None, Named("second")))
    second = archive(aged, BEFORE, lambda _: None, Named("second", "first"))
    next(second)
    before = records(aged)
    with pytest.raises(LeaseLost):
        next(first)
    assert records(aged) == before
    assert list(second)
    assert aged.leases.holders() == {}


def test_each_slice_is_a_whole_member_and_what_a_kill_cuts_off_hides_none_before(tmp_path: Path) -> None:
    file = ArchiveFile(tmp_path, "test", NOW)
    file.write([b'{"id":1}\n'])
    file.write([b'{"id":2}\n'])
    assert file.path is not None
    whole = file.path.read_bytes()
    assert gzip.decompress(whole) == b'{"id":1}\n{"id":2}\n'
    other = ArchiveFile(tmp_path, "test", NOW)
    other.write([b"{}\n"])
    assert other.path != file.path
    os.truncate(file.path, len(whole) - 5)
    with gzip.open(file.path) as reader:
        assert reader.readline() == b'{"id":1}\n'
        with pytest.raises(EOFError):
            reader.read()


def test_the_server_archives_by_age(aged: Store, tmp_path: Path) -> None:
    task, _ = ended_task(aged)
    for days in (50, 40, 9, 1):
        aged.audit.add(NewAuditRecord(time=aged.clock() - days * DAY, verb=f"verb {days}"))
    aged.audit.link()
    loop = archiving(aged, Named("first"), tmp_path / "archive", 7 * DAY, 30 * DAY)
    loop.start()
    wait_for(lambda: len(aged.audit.page(AuditQuery())) == 2, "the task and the audit are archived")
    loop.stop()
    assert aged.queries.task(task) is None
    (path,) = (tmp_path / "archive").iterdir()
    assert {line["record"] for line in lines(path)} == {"job", "choice", "task", "audit"}
    archived = [line["audit"]["verb"] for line in lines(path) if line["record"] == "audit"]
    assert archived == ["verb 50", "verb 40"]
    assert aged.audit.verify(0, 10).faults == []


def test_the_command_says_what_went_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/store.sqlite"
    store = Store.open(url)
    store.save_federation(FEDERATION, "test")
    create(store, *(File(name=name, size=1, checksum="") for name in "ab"))
    ended_task(store)
    store.close()
    monkeypatch.setenv("PILOTAGE_STORE", url)
    monkeypatch.setenv("PILOTAGE_HOME", str(tmp_path))
    command = ["history", "archive", "--older-than", "30", "--to", str(tmp_path / "archive")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "1 choice, 3 jobs, 1 task archived to" in " ".join(done.output.split())
    again = CliRunner().invoke(app, command)
    assert "nothing ended more than 30 days ago" in again.output
    young = CliRunner().invoke(app, ["history", "archive", "--older-than", "1", "--to", str(tmp_path)])
    assert young.exit_code == 2


def test_the_command_makes_no_store_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mistyped.sqlite"
    monkeypatch.setenv("PILOTAGE_STORE", f"sqlite:///{path}")
    monkeypatch.setenv("PILOTAGE_HOME", str(tmp_path))
    refused = CliRunner().invoke(
        app, ["history", "archive", "--older-than", "30", "--to", str(tmp_path / "a")]
    )
    assert refused.exit_code == 2
    assert f"there is no store at sqlite:///{path}" in "".join(refused.output.split("\n"))
    assert list(tmp_path.iterdir()) == []


def test_stored_bytes_are_free_again_after_the_archive(store: Store) -> None:
    ended_task(store, name="ended")
    live = new_task(store, command=("echo", "ä"))
    both = store.stored_by(ALICE)
    list(archive(store, BEFORE, lambda _: None))
    assert store.stored_by(ALICE) == sum(store.database.read(lambda c: volumes_of(c, [live])).values())
    assert 0 < store.stored_by(ALICE) < both
