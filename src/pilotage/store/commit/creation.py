"""Number, write and count new records in bulk. Existing ones stay as they are."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, delete, select, update

from pilotage.model.circuit_breakers.storages import FailedDelivery
from pilotage.model.documents.decision import KINDS, Creation
from pilotage.model.records.advertisements import NewAdvertisement
from pilotage.model.records.borrowing import Borrowing
from pilotage.model.records.data import CorrectedFile
from pilotage.model.records.failures import Failure
from pilotage.model.records.notifications import NewNotification
from pilotage.model.records.publications import NewPublication
from pilotage.model.records.states import FIRST, JobState, Kind, State, TaskState
from pilotage.model.records.storage_spaces import StorageSpace
from pilotage.model.records.work import (
    File,
    NewDatasetVersion,
    NewJob,
    NewPilot,
    NewTask,
    NewTransfer,
    Replica,
)
from pilotage.model.values.slot_parts import SMALL, SMALL_FILE
from pilotage.store.commit.file_conflicts import known_files, refuse_taken, replaces
from pilotage.store.commit.new_rows import job_row, links, owner_row, rows_of, task_row, transfer_row
from pilotage.store.commit.transfer_requests import TransferRequests
from pilotage.store.database import bulk
from pilotage.store.database.dialects import replaced, upsert
from pilotage.store.database.record_columns import row_maker
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.files import datasets
from pilotage.store.files.table import FILE_COLUMNS, correct, files, replicas
from pilotage.store.history.events import LOGGED, NO_TASK, NewEvents
from pilotage.store.history.history import Entries
from pilotage.store.history.numbers import Numbers
from pilotage.store.jobs import borrowings, failures
from pilotage.store.jobs.counters import KEY_COLUMNS, Deltas
from pilotage.store.jobs.table import job_inputs
from pilotage.store.people.tokens import refuse_closed
from pilotage.store.queues import advertisements, circuit_breakers
from pilotage.store.records import RECORDS
from pilotage.store.tasks import table as task_rows
from pilotage.store.tasks import workflows
from pilotage.store.tasks.resumption import refuse_changed
from pilotage.store.tasks.table import tasks
from pilotage.store.transfers import storages

WITHOUT_NUMBER = 0
"""The id of a record that is identified otherwise, such as a file."""

_WRITE: dict[type, Any] = {
    FailedDelivery: circuit_breakers.write,
    Borrowing: borrowings.write,
    StorageSpace: storages.write_spaces,
    CorrectedFile: correct,
}
_TOLD = (Failure, *_WRITE, NewAdvertisement, NewDatasetVersion)
_ORDER: tuple[type, ...] = (
    *(NewTask, CorrectedFile, File, Replica, NewDatasetVersion),
    *(NewJob, NewTransfer, NewPilot, NewPublication, NewNotification, Failure, *_WRITE, NewAdvertisement),
)
"""Records that others refer to come first."""


_FILE_NAMES = [column.name for column in FILE_COLUMNS]
_file_row = row_maker(File)
_SAVE_FILES = upsert(files, ["name"], _FILE_NAMES, replaced(_FILE_NAMES[1:]))
_CONFIRM = update(files).where(among(files.c.name, "names"), files.c.author != "").values(author="")
_SMALL = select(files.c.name).where(among(files.c.name, "names"), files.c.size <= bindparam("most"))
_KNOWN_SUBMISSIONS = select(tasks.c.submission).where(among(tasks.c.submission, "names"))
_KNOWN_REPLICAS = select(replicas.c.file, replicas.c.storage).where(among(replicas.c.file, "names"))
_FORGET_REPLICAS = delete(replicas).where(among(replicas.c.file, "names"))

N = TypeVar("N", NewTask, NewJob, NewTransfer, NewPilot)


class Creator:
    """Numbers the new records of one commit, and writes the numbered ones once at its end."""

    def __init__(
        self,
        connection: Connection,
        time: float,
        deltas: Deltas,
        entries: Entries,
        events: NewEvents,
        numbers: Numbers,
        actor: str = "",
    ) -> None:
        self._actor = actor
        self._connection = connection
        self._time = time
        self._deltas = deltas
        self._entries = entries
        self._events = events
        self._numbers = numbers
        self._rows: dict[Kind, list[tuple[Any, ...]]] = defaultdict(list)
        self._columns: dict[Kind, tuple[str, ...]] = {}
        self._inputs: list[tuple[int, int, str]] = []
        self._failures: list[Failure] = []
        self._requests = TransferRequests(connection)

    def write(self) -> None:
        """Write the collected records. Records that others refer to come first."""
        for kind in KEY_COLUMNS:
            if self._rows[kind]:
                bulk.insert(self._connection, RECORDS[kind], self._columns[kind], self._rows[kind])
        bulk.insert(self._connection, job_inputs, ("job", "position", "file"), self._inputs)
        self._requests.write()
        if self._failures:
            failures.write(self._connection, self._failures)

    def create(self, records: Sequence[Creation], cause: str) -> list[int | None]:
        """Create records. Return their ids in order; None for existing ones."""
        by_type: dict[type, list[int]] = defaultdict(list)
        for index, record in enumerate(records):
            by_type[type(record)].append(index)
        created: list[int | None] = [None] * len(records)
        for type_ in _ORDER:
            indexes = by_type.get(type_, [])
            ids = self._create(type_, [records[index] for index in indexes], cause) if indexes else []
            for index, id_ in zip(indexes, ids, strict=True):
                created[index] = id_
        return created

    def _create(self, type_: type, records: Sequence[Any], cause: str) -> Sequence[int | None]:
        if type_ is File:
            return self._files(records)
        if type_ is Replica:
            return self._replicas(records)
        if type_ in _TOLD:
            return self._write_stateless(type_, records)
        if type_ is NewTransfer:
            return self._transfers(records, cause)
        if type_ is NewTask:
            return self._tasks(records, cause)
        is_job = type_ is NewJob
        return self._jobs(records, cause) if is_job else self._insert(type_, rows_of(type_, records), cause)

    def _jobs(self, records: Sequence[NewJob], cause: str) -> list[int]:
        """Write jobs and their inputs. Jobs beyond a quota are throttled."""
        ids: list[int] = []
        for throttled, run in groupby(records, key=lambda job: job.throttled):
            state = JobState.THROTTLED if throttled else JobState.DEFINED
            ids += self._insert(NewJob, [*map(job_row, run)], cause, state)
        self._inputs += [
            (id_, position, file)
            for id_, job in zip(ids, records, strict=True)
            for position, file in enumerate(job.inputs)
        ]
        return ids

    def _write_stateless(self, type_: type, records: Sequence[Any]) -> list[int | None]:
        """Write failures, borrowings, advertisements or dataset versions, which have no states."""
        if type_ is Failure:
            # Every successful job may change failures. So search for old or excess ones only once.
            self._failures += records
            return [WITHOUT_NUMBER] * len(records)
        if write := _WRITE.get(type_):
            write(self._connection, records)
            return [WITHOUT_NUMBER] * len(records)
        if type_ is NewDatasetVersion:
            written = [datasets.write(self._connection, record, self._time) for record in records]
        else:
            written = advertisements.write(self._connection, records, self._time, self._deltas)
        return [WITHOUT_NUMBER if is_new else None for is_new in written]

    def _tasks(self, tasks: Sequence[NewTask], cause: str) -> list[int | None]:
        names = [task.submission for task in tasks if task.submission]
        existing = (
            set(self._connection.execute(_KNOWN_SUBMISSIONS, {"names": names}).scalars()) if names else set()
        )
        # A client sent the same request again: its tasks exist already.
        new = [task for task in tasks if task.submission not in existing]
        refuse_closed(self._connection, (task.owner for task in new))
        refuse_changed(self._connection, [stage for task in new for stage in task.stages])
        refuse_taken(self._connection, [task.spec.output_dataset for task in new if task.spec.output_dataset])
        numbers = iter(list(self._new_tasks(new, cause)))
        ids = [None if task.submission in existing else next(numbers) for task in tasks]
        rows = (row for id_, task in zip(ids, tasks, strict=True) if id_ for row in links(id_, task, ids))
        workflows.write_predecessors(self._connection, list(rows))
        return ids

    def _new_tasks(self, new: Sequence[NewTask], cause: str) -> Iterator[int]:
        """Number tasks, each in its first state, and the workflows that they are created with."""
        workflow_ids: dict[str, int] = {}
        volumes = Counter[tuple[str, str]]()
        for task in new:
            if task.workflow and task.workflow not in workflow_ids:
                (number,) = self._numbers.take("workflow", 1)
                workflow_ids[task.workflow] = number
                owner = owner_row(task.owner)
                workflows.write_workflow(
                    self._connection, number, task.workflow, owner, self._time, task.stages
                )
        for is_chained, run in groupby(new, key=lambda task: task.is_chained):
            rows = [{**task_row(task), "workflow": workflow_ids.get(task.workflow)} for task in run]
            for row in rows:
                volumes[row["vo"], row["owner"]] += len(row["spec"].encode())
            yield from self._insert(NewTask, rows, cause, TaskState.WAITING if is_chained else None)
        task_rows.add_volumes(self._connection, volumes)

    def _insert(
        self, type_: type, rows: list[dict[str, Any]], cause: str, first: State | None = None
    ) -> range:
        """Number the rows in order, keep them in their first state for writing, and count them."""
        kind = KINDS[type_]
        state = first or FIRST[kind]
        ids = self._numbers.take(kind, len(rows))
        first_entry = self._entries.entry(kind, None, state, cause)(1)
        for id_, row in zip(ids, rows, strict=True):
            row.update(
                id=id_, state=str(state), attempt=1, created=self._time, since=self._time, history=first_entry
            )
        if kind in LOGGED:
            number = self._entries.number(kind, None, state, cause)
            for task, of_task in groupby(rows, key=lambda row: _task_of(kind, row)):
                self._events.note(kind, number, task, [row["id"] for row in of_task])
        names = self._columns.setdefault(kind, tuple(rows[0]))
        self._rows[kind] += [tuple(map(row.get, names)) for row in rows]
        columns = KEY_COLUMNS[kind]
        for values, count in Counter(tuple(row[column] for column in columns) for row in rows).items():
            self._deltas.add(kind, values, state, count)
        return ids

    def _files(self, new_files: Sequence[File]) -> list[int | None]:
        names = list({file.name for file in new_files})
        files_by_name = known_files(self._connection, names)
        before = set(files_by_name)
        created: list[int | None] = []
        changed: dict[str, File] = {}
        for file in new_files:
            last = files_by_name.get(file.name)
            created.append(WITHOUT_NUMBER if last is None else None)
            if last is None or replaces(file, last):
                files_by_name[file.name] = changed[file.name] = file
        new = [_file_row(file) for name, file in changed.items() if name not in before]
        is_operator = self._actor.startswith("operator:")
        rows = [(*row.values(), "" if is_operator or row["job"] is not None else self._actor) for row in new]
        bulk.insert(self._connection, files, (*_FILE_NAMES, "author"), rows)
        datasets.add_registrations(self._connection, self._actor, sum(row["job"] is None for row in new))
        if is_operator and before:
            self._connection.execute(_CONFIRM, {"names": sorted(before)})
        # Insert new names in bulk. Replace the few files that have other bytes now.
        if changed.keys() & before:
            self._connection.execute(
                _SAVE_FILES, [_file_row(changed[name]) for name in changed.keys() & before]
            )
            # The replicas under these names have other bytes until they are delivered again.
            self._connection.execute(_FORGET_REPLICAS, {"names": sorted(changed.keys() & before)})
        return created

    def _replicas(self, new_replicas: Sequence[Replica]) -> list[int | None]:
        names = list({replica.file for replica in new_replicas})
        existing = set(raw_rows(self._connection, _KNOWN_REPLICAS, names=names))
        new: dict[tuple[str, str], str] = {}
        created: list[int | None] = []
        for replica in new_replicas:
            pair = (replica.file, replica.storage)
            created.append(None if pair in existing or pair in new else WITHOUT_NUMBER)
            if pair not in existing:
                new.setdefault(pair, replica.path)
        rows = [(*pair, path, self._time) for pair, path in new.items()]
        bulk.insert(self._connection, replicas, ("file", "storage", "path", "since"), rows)
        return created

    def _transfers(self, requests: Sequence[NewTransfer], cause: str) -> list[int | None]:
        """Create transfers.

        If one of the same file to the same storage is live, raise that one instead (D2).
        """
        self._requests.look_up(requests)
        new: dict[tuple[str, str], NewTransfer] = {}
        for transfer in requests:
            if self._requests.serving(transfer) is None:
                new.setdefault((transfer.file, transfer.destination), transfer)
        small = self._small({transfer.file for transfer in new.values()})
        rows = [transfer_row(transfer, SMALL if transfer.file in small else "") for transfer in new.values()]
        ids = self._insert(NewTransfer, rows, cause) if rows else range(0)
        created: dict[int, int] = {}
        for id_, transfer, row in zip(ids, new.values(), rows, strict=True):
            self._requests.add(id_, transfer, row["size_class"])
            created[id(transfer)] = id_
        for transfer in requests:
            self._raise(transfer)
        return [created.pop(id(transfer), None) for transfer in requests]

    def _small(self, names: set[str]) -> set[str]:
        """Return the files that take only a part of a slot (D8)."""
        rows = raw_rows(self._connection, _SMALL, names=sorted(names), most=SMALL_FILE) if names else ()
        return {name for (name,) in rows}

    def _raise(self, request: NewTransfer) -> None:
        """Raise the transfer that serves a request to the better share and priority. Update its counts."""
        if (changed := self._requests.raise_for(request)) is None:
            return
        before, after = changed
        state = before.state
        self._deltas.moved("transfer", before.keys, after.keys, state, state, 1)


def _task_of(kind: Kind, row: dict[str, Any]) -> int:
    """Return the number of the task that a new record belongs to, or is."""
    return int(row["id"] if kind == "task" else row.get("task", NO_TASK))
