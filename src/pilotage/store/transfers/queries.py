"""Transfers and the files of one job for people: their state, the transfers ahead, and durations."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, bindparam, func, or_, select

from pilotage.model.circuit_breakers.storages import FailedDelivery
from pilotage.model.records.counters import TRANSFERS_BY_SHARE
from pilotage.model.records.states import TRANSFERS_AHEAD, UNFINISHED_TRANSFERS, TransferState
from pilotage.model.records.storage_spaces import StorageSpace
from pilotage.model.records.transfer_queues import TransferCount
from pilotage.model.records.work import FileKind, FileOfJob, Transfer
from pilotage.model.values.slot_parts import parts_of
from pilotage.store.database.columns import is_state
from pilotage.store.database.engine import Database
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.files.table import files, replicas
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.table import job_inputs, jobs
from pilotage.store.queues import circuit_breakers
from pilotage.store.transfers import storages
from pilotage.store.transfers import table as transfer_rows
from pilotage.store.transfers.table import TRANSFER_COLUMNS, transfers


class TransferQueries:
    """Reads for explaining a transfer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def transfer(self, transfer: int) -> Transfer | None:
        """Return a transfer in its current state."""
        query = select(*TRANSFER_COLUMNS).where(transfers.c.id == transfer)

        def read(connection: Connection) -> Transfer | None:
            row = connection.execute(query).one_or_none()
            return None if row is None else transfer_rows.transfer(row)

        return self._database.read(read)

    def moved_files(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the files of transfers, by number."""
        query = select(transfers.c.id, transfers.c.file).where(among(transfers.c.id, "ids"))
        return self._database.read(lambda connection: dict(raw_rows(connection, query, ids=sorted(ids))))

    def ahead_of(self, transfer: Transfer, bundle: int) -> tuple[int, float]:
        """Return the number of transfers of its share and state ahead of it, by priority, then age.

        The second number is the slots that they take. A slot holds a ``bundle`` of small files.
        """
        x = transfers.c
        first = or_(x.priority > transfer.priority, (x.priority == transfer.priority) & (x.id < transfer.id))
        waiting = is_state(transfers, transfer.state)
        query = (
            select(x.size_class, func.count())
            .where(x.share == transfer.share, waiting, first)
            .group_by(x.size_class)
        )
        rows = self._database.read(lambda connection: connection.execute(query).all())
        slots = sum(number * parts_of(size_class, bundle) for size_class, number in rows) / bundle
        return sum(number for _, number in rows), slots

    def waiting_of(self, task: int) -> list[tuple[str, str, int]]:
        """Count the transfers that a task's jobs wait for and that no server moves yet, by storages."""
        x = transfers.c
        read = select(job_inputs.c.file).join(jobs, jobs.c.id == job_inputs.c.job).where(jobs.c.task == task)
        outputs = select(files.c.name).where(files.c.task == task)
        query = (
            select(x.source, x.destination, func.count())
            .where(
                is_state(transfers, TransferState.QUEUED, *TRANSFERS_AHEAD),
                or_(
                    (x.direction == "download") & x.file.in_(read),
                    (x.direction == "upload") & x.file.in_(outputs),
                ),
            )
            .group_by(x.source, x.destination)
            .order_by(x.source, x.destination)
        )
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return [(source, destination, int(number)) for source, destination, number in rows]

    def live(self) -> list[TransferCount]:
        """Return the numbers of live transfers by share, way, state and class of size."""
        x = transfers.c
        parts = (x.share, x.source, x.destination, x.state, x.size_class, x.emergency)
        query = (
            select(*parts, func.count())
            .where(is_state(transfers, *UNFINISHED_TRANSFERS))
            .group_by(*parts)
            .order_by(*parts)
        )
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return [
            TransferCount(
                share=share,
                source=source,
                destination=destination,
                state=TransferState(state),
                size_class=size_class,
                emergency=bool(emergency),
                transfers=number,
            )
            for share, source, destination, state, size_class, emergency, number in rows
        ]

    def files_of(self, job: int, home: str) -> list[FileOfJob]:
        """Return the files of a job at a queue with the storage ``home``, each with its last transfer."""
        return self._database.read(lambda connection: of_job(connection, job, home))

    def failed_deliveries(self) -> tuple[FailedDelivery, ...]:
        """Read the deliveries that failed through a storage, oldest first (F4)."""
        return self._database.read(circuit_breakers.failed_deliveries)

    def storage_spaces(self) -> tuple[StorageSpace, ...]:
        """Return storages' reports of their free space, by name (B18)."""
        return self._database.read(storages.read_spaces)

    def delivering(self) -> list[tuple[Transfer, int]]:
        """Return the transfers in delivery, by number, with their files' sizes in bytes."""
        query = (
            select(*TRANSFER_COLUMNS, files.c.size)
            .join(files, files.c.name == transfers.c.file)
            .where(is_state(transfers, TransferState.DELIVERING))
            .order_by(transfers.c.id)
        )
        return self._database.read(
            lambda connection: [(transfer_rows.transfer(row), row[-1]) for row in connection.execute(query)]
        )

    def counts_by_share(self) -> dict[str, dict[str, int]]:
        """Return the numbers of all transfers by share and state."""
        c = counts.c
        query = (
            select(c.first, c.state, func.sum(c.count))
            .where(c.counter == TRANSFERS_BY_SHARE)
            .group_by(c.first, c.state)
            .order_by(c.first)
        )
        by_share: dict[str, dict[str, int]] = {}
        for share, state, count in self._database.read(lambda connection: connection.execute(query).all()):
            by_share.setdefault(share, {})[state] = int(count)
        return by_share

    def delivery_time(self, last: int = 100) -> float | None:
        """Return the mean duration of the last deliveries in s; None if there were none."""
        x = transfers.c
        ended = is_state(transfers, TransferState.DONE)
        durations = (
            select((x.ended - x.started).label("taken"))
            .where(ended, x.started.is_not(None))
            .order_by(x.since.desc(), x.id.desc())
            .limit(last)
            .subquery()
        )
        query = select(func.avg(durations.c.taken))
        return self._database.read(lambda connection: connection.execute(query).scalar())


MOST_FILES = 50
"""Most inputs, and outputs, of a job that are shown."""

_Moved = tuple[Transfer | None, float | None]
"""A transfer, and the duration of its delivery in s."""

NEVER: _Moved = (None, None)

_f, _x = files.c, transfers.c
_INPUTS = (
    select(_f.name, _f.size)
    .join(job_inputs, job_inputs.c.file == _f.name)
    .where(job_inputs.c.job == bindparam("job"))
    .order_by(job_inputs.c.position)
    .limit(MOST_FILES)
)
# Sort here: a job has at most a thousand, and no index has them by name.
_OUTPUTS = select(_f.name, _f.size).where(_f.job == bindparam("job"), _f.job.is_not(None))
_HOLDERS = select(replicas.c.file, replicas.c.storage).where(among(replicas.c.file, "names"))
_TRANSFERS = (
    select(*TRANSFER_COLUMNS, _x.started, _x.ended)
    .where(
        among(_x.file, "names"),
        or_(_x.direction == "upload", _x.destination == bindparam("home")),
    )
    .order_by(_x.id)
)


def of_job(connection: Connection, job: int, home: str) -> list[FileOfJob]:
    """Return the first inputs and outputs of a job at a queue with the storage ``home``."""
    rows: list[tuple[FileKind, str, int]] = []
    rows += [("input", file, size) for file, size in connection.execute(_INPUTS, {"job": job})]
    outputs = sorted(connection.execute(_OUTPUTS, {"job": job}).all())[:MOST_FILES]
    rows += [("output", file, size) for file, size in outputs]
    names = [file for _, file, _ in rows]
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for file, storage in connection.execute(_HOLDERS, {"names": names}):
        holders[file].append(storage)
    moved = _moved(connection, names, home)
    return [
        FileOfJob(
            file=file,
            kind=kind,
            size=size,
            storages=tuple(sorted(holders[file])),
            transfer=moved.get((kind, file), NEVER)[0],
            took=moved.get((kind, file), NEVER)[1],
        )
        for kind, file, size in rows
    ]


def _moved(connection: Connection, names: list[str], home: str) -> Mapping[tuple[str, str], _Moved]:
    """Return the last transfer of each input to ``home``, and of each output to its final storage."""
    last: dict[tuple[str, str], _Moved] = {}
    for row in connection.execute(_TRANSFERS, {"names": names, "home": home}):
        started, ended = row[-2:]
        moved = transfer_rows.transfer(row), None if started is None or ended is None else ended - started
        if row.direction == "upload":
            last["output", row.file] = moved
        if row.destination == home:
            last["input", row.file] = moved
    return last
