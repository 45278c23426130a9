"""Logs of attempts and pilots, and their current readers."""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    bindparam,
    func,
    select,
    text,
)

from pilotage.model.records.logs import KeptLog, LogKey, Point
from pilotage.model.records.measurements import KEPT_LOGS
from pilotage.model.values.identity import Identity
from pilotage.store.database.columns import Id, metadata, text_column
from pilotage.store.database.engine import Database
from pilotage.store.database.rows import among, raw_rows

logs = Table(
    "logs",
    metadata,
    Column("kind", String, primary_key=True),
    Column("record", Id, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("stream", String, primary_key=True),
    text_column("vo"),
    text_column("owner"),
    Column("time", Double, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("head", Integer, nullable=False),
    Column("stored", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("logs_by_owner", "vo", "owner", "time"),
)

log_readers = Table(
    "log_readers",
    metadata,
    Column("kind", String, primary_key=True),
    Column("record", Id, primary_key=True, autoincrement=False),
    Column("until", Double, nullable=False),
)

_l, _r = logs.c, log_readers.c
_later = logs.alias()

ROW = 200
"""Bytes that a log takes besides its data."""

_NAMES = "kind, record, attempt, stream, vo, owner, time, size, head, stored, data"
_PUT = text(
    f"INSERT INTO logs ({_NAMES}) VALUES (:{_NAMES.replace(', ', ', :')}) "
    "ON CONFLICT (kind, record, attempt, stream) DO UPDATE SET "
    "time = excluded.time, size = excluded.size, head = excluded.head, stored = excluded.stored, "
    "data = excluded.data"
).bindparams(bindparam("data", type_=LargeBinary))
_READ = text(
    "INSERT INTO log_readers (kind, record, until) VALUES (:kind, :record, :until) "
    "ON CONFLICT (kind, record) DO UPDATE SET until = excluded.until"
)
_LATEST = (
    select(func.max(_later.c.attempt))
    .where(_later.c.kind == "job", _later.c.record == _l.record, _later.c.stream.in_(("stderr", "stdout")))
    .correlate(logs)
    .scalar_subquery()
)
_OF_JOBS = (
    select(logs)
    .where(_l.kind == "job", among(_l.record, "jobs"), _l.stream.in_(("stderr", "stdout")))
    .where(_l.attempt == _LATEST)
    .order_by(_l.record, _l.stream)
)
_KNOWN = select(_l.kind, _l.record, _l.attempt, _l.stream, _l.stored).where(
    _l.kind == bindparam("of_kind"), among(_l.record, "records")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLog:
    """The kept part of a stream: ``head`` bytes of its beginning, the rest from its end.

    ``size`` counts the bytes of the whole stream. It arrived at ``time``, in s since 1970 UTC.
    """

    stream: str
    time: float
    size: int
    head: int
    data: bytes


class Logs:
    """Keeps the latest log of each stream of an attempt."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, logs: Iterable[tuple[KeptLog, Identity]], time: float) -> None:
        """Store logs, each with its owner, replacing existing ones."""
        # Write in the order of their keys, so that two servers never deadlock.
        rows = sorted((_row(log, owner, time) for log, owner in logs), key=_key)
        if not rows:
            return

        def write(connection: Connection) -> dict[tuple[Any, ...], int]:
            former = _stored_of(connection, rows)
            connection.execute(_PUT, rows)
            return former

        former = self._database.write(write, alone=False)
        for row in rows:
            added = row["stored"] - former.get(_key(row), 0)
            self._database.measurements.count(KEPT_LOGS, (row["vo"], row["owner"]), added)

    def of(self, key: LogKey) -> list[StoredLog]:
        """Return the streams of a job's attempt, or of a pilot, by name."""
        query = select(logs).where(_of(key)).order_by(_l.stream)
        return [
            _stored(row) for row in self._database.read(lambda connection: connection.execute(query).all())
        ]

    def latest(self, jobs: Sequence[int]) -> dict[int, tuple[int, list[StoredLog]]]:
        """Return the latest attempt of each job that has output, with that output, by job."""
        rows = self._database.read(lambda connection: connection.execute(_OF_JOBS, {"jobs": jobs}).all())
        by_job: dict[int, tuple[int, list[StoredLog]]] = {}
        for row in rows:
            by_job.setdefault(row.record, (row.attempt, []))[1].append(_stored(row))
        return by_job

    def written(self, kind: str, record: int) -> int:
        """Return how many bytes all attempts with a stored log wrote."""
        query = select(func.coalesce(func.sum(_l.size), 0)).where(_l.kind == kind, _l.record == record)
        return int(self._database.read(lambda connection: connection.execute(query).scalar_one()))

    def attempts(self, kind: str, record: int) -> list[int]:
        """Return the attempts with any kept log, oldest first."""
        query = select(_l.attempt).where(_l.kind == kind, _l.record == record).distinct().order_by(_l.attempt)
        return [row[0] for row in self._database.read(lambda connection: connection.execute(query).all())]

    def points(self, key: LogKey) -> tuple[Point, ...]:
        """Return the time line of an attempt; empty if there is none."""
        logs = [log for log in self.of(key) if log.stream == USAGE]
        return tuple(tuple(point) for point in json.loads(logs[0].data)) if logs else ()

    def node(self, pilot: int) -> dict[str, Any] | None:
        """Return a pilot's description of its node; None if it sent none, or if that was deleted."""
        logs = [log for log in self.of(LogKey(kind="pilot", record=pilot)) if log.stream == NODE]
        return json.loads(logs[0].data) if logs else None

    def ask(self, kind: str, record: int, until: float) -> None:
        """Record that a person reads the logs of a job or pilot, and wants new ones until ``until``."""
        values = {"kind": kind, "record": record, "until": until}
        self._database.write(lambda connection: connection.execute(_READ, values), alone=False)

    def with_readers(self, time: float) -> frozenset[tuple[str, int]]:
        """Return the jobs and pilots, by kind and number, with logs that a person reads at this time."""
        query = select(_r.kind, _r.record).where(_r.until > time)
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return frozenset((kind, record) for kind, record in rows)


USAGE = "usage"
"""The stream of a time line."""


NODE = "node"
"""The stream of a pilot's description of its node."""


def node_log(key: LogKey, node: Mapping[str, Any]) -> KeptLog:
    """Return a pilot's description of its node as a log."""
    data = json.dumps(node, separators=(",", ":")).encode()
    return KeptLog(key=key, stream="node", size=len(data), head=len(data), data=zlib.compress(data))


def usage_log(key: LogKey, points: Sequence[Point]) -> KeptLog:
    """Return a time line as a log."""
    data = json.dumps(points, separators=(",", ":")).encode()
    return KeptLog(key=key, stream="usage", size=len(data), head=len(data), data=zlib.compress(data))


def _stored(row: Any) -> StoredLog:
    return StoredLog(
        stream=row.stream, time=row.time, size=row.size, head=row.head, data=zlib.decompress(row.data)
    )


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("kind", "record", "attempt", "stream"))


def _stored_of(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], int]:
    """Return the bytes of the stored logs of these records, by key."""
    records: dict[str, list[int]] = {}
    for row in rows:
        records.setdefault(row["kind"], []).append(row["record"])
    return {
        tuple(key): int(stored)
        for kind, numbers in records.items()
        for *key, stored in raw_rows(connection, _KNOWN, of_kind=kind, records=numbers)
    }


def _row(log: KeptLog, owner: Identity, time: float) -> dict[str, Any]:
    return {
        "kind": log.key.kind,
        "record": log.key.record,
        "attempt": log.key.attempt,
        "stream": log.stream,
        "vo": owner.vo,
        "owner": owner.name,
        "time": time,
        "size": log.size,
        "head": log.head,
        "stored": len(log.data) + ROW,
        "data": log.data,
    }


def _of(key: LogKey) -> ColumnElement[bool]:
    return (_l.kind == key.kind) & (_l.record == key.record) & (_l.attempt == key.attempt)
