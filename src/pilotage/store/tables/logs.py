"""Logs of attempts and pilots, bounded in size and time, and their current readers."""

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
    delete,
    func,
    select,
    text,
)

from pilotage.model.records.constants import LogConstants
from pilotage.model.records.logs import KeptLog, LogKey, Point
from pilotage.model.values.identity import Identity
from pilotage.store.database.columns import Id, metadata, text_column
from pilotage.store.database.engine import Database
from pilotage.store.database.sets import among, raw_rows

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
    Index("logs_by_owner", "vo", "owner", "time", "stored"),
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

MEGABYTE = 1_000_000
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
_OLD = delete(logs).where(
    _l.vo == bindparam("of_vo"), _l.owner == bindparam("of_owner"), _l.time < bindparam("before")
)
_SILENT = delete(log_readers).where(_r.until < bindparam("time"))
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
_USED = select(_l.vo, _l.owner, func.min(_l.time), func.sum(_l.stored)).group_by(_l.vo, _l.owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLog:
    """The kept part of a stream: ``head`` bytes of its beginning, the rest from its end.

    ``size`` is that of the whole stream in bytes, ``time`` its arrival in s since 1970 UTC.
    """

    stream: str
    time: float
    size: int
    head: int
    data: bytes


class Logs:
    """Keeps the latest log of each stream of an attempt, and deletes the oldest if there are too many."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, kept: Iterable[tuple[KeptLog, Identity]], time: float) -> None:
        """Store logs, each with its owner, replacing existing ones."""
        rows = [_row(log, owner, time) for log, owner in kept]
        if rows:
            # In the order of their keys, so that two servers never wait for each other.
            rows.sort(key=lambda row: (row["kind"], row["record"], row["attempt"], row["stream"]))
            self._database.write(lambda connection: connection.execute(_PUT, rows), alone=False)

    def of(self, key: LogKey) -> list[StoredLog]:
        """Return the streams of a job's attempt, or of a pilot, by name."""
        query = select(logs).where(_of(key)).order_by(_l.stream)
        return [
            _stored(row) for row in self._database.read(lambda connection: connection.execute(query).all())
        ]

    def latest(self, jobs: Sequence[int]) -> dict[int, tuple[int, list[StoredLog]]]:
        """Return the latest attempt of jobs that wrote something, with its output, by job."""
        rows = self._database.read(lambda connection: connection.execute(_OF_JOBS, {"jobs": jobs}).all())
        found: dict[int, tuple[int, list[StoredLog]]] = {}
        for row in rows:
            found.setdefault(row.record, (row.attempt, []))[1].append(_stored(row))
        return found

    def written(self, kind: str, record: int) -> int:
        """Return the bytes that all attempts wrote, as far as is known."""
        query = select(func.coalesce(func.sum(_l.size), 0)).where(_l.kind == kind, _l.record == record)
        return int(self._database.read(lambda connection: connection.execute(query).scalar_one()))

    def attempts(self, kind: str, record: int) -> list[int]:
        """Return the attempts with any kept log, oldest first."""
        query = select(_l.attempt).where(_l.kind == kind, _l.record == record).distinct().order_by(_l.attempt)
        return [row[0] for row in self._database.read(lambda connection: connection.execute(query).all())]

    def points(self, key: LogKey) -> tuple[Point, ...]:
        """Return the time line of an attempt; empty if there is none."""
        found = [log for log in self.of(key) if log.stream == USAGE]
        return tuple(tuple(point) for point in json.loads(found[0].data)) if found else ()

    def node(self, pilot: int) -> dict[str, Any] | None:
        """Return a pilot's description of its node; None if it sent none, or if it is no longer kept."""
        found = [log for log in self.of(LogKey(kind="pilot", record=pilot)) if log.stream == NODE]
        return json.loads(found[0].data) if found else None

    def ask(self, kind: str, record: int, until: float) -> None:
        """Record that somebody reads the logs of a job or pilot, and wants new ones until ``until``."""
        values = {"kind": kind, "record": record, "until": until}
        self._database.write(lambda connection: connection.execute(_READ, values), alone=False)

    def asked(self, time: float) -> frozenset[tuple[str, int]]:
        """Return jobs and pilots, by kind and number, whose logs somebody reads at this time."""
        query = select(_r.kind, _r.record).where(_r.until > time)
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return frozenset((kind, record) for kind, record in rows)

    def prune(self, time: float, bounds: LogConstants) -> None:
        """Delete logs older than the retention, then the oldest of everybody beyond the limits."""

        def write(connection: Connection) -> None:
            before = time - bounds.retention
            connection.execute(_SILENT, {"time": time})
            used = raw_rows(connection, _USED)
            if old := [(vo, owner) for vo, owner, oldest, _ in used if oldest < before]:
                for vo, owner in old:
                    connection.execute(_OLD, {"of_vo": vo, "of_owner": owner, "before": before})
                used = raw_rows(connection, _USED)
            by_vo: dict[str, int] = {}
            for vo, owner, _, stored in used:
                by_vo[vo] = by_vo.get(vo, 0) + int(stored)
                if stored > bounds.by_user * MEGABYTE:
                    _shorten(connection, bounds.by_user, "vo = :vo AND owner = :owner", vo=vo, owner=owner)
            for vo, stored in by_vo.items():
                if stored > bounds.by_vo * MEGABYTE:
                    _shorten(connection, bounds.by_vo, "vo = :vo", vo=vo)
            if sum(by_vo.values()) > bounds.total * MEGABYTE:
                _shorten(connection, bounds.total, "1 = 1")

        self._database.write(write)


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


def _row(log: KeptLog, owner: Identity, time: float) -> dict[str, object]:
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


def _shorten(connection: Connection, most: float, condition: str, **values: str) -> None:
    """Delete the oldest logs that meet a condition, until all of them take at most ``most`` MB."""
    # A running sum from the newest on: delete everything beyond the limit, however large single logs are.
    key = "kind, record, attempt, stream"
    newer = f"sum(stored) OVER (ORDER BY time DESC, {key})"
    dated = f"SELECT {key}, {newer} AS newer FROM logs WHERE {condition}"
    beyond = f"SELECT {key} FROM ({dated}) AS dated WHERE newer > :most"
    connection.execute(
        text(f"DELETE FROM logs WHERE ({key}) IN ({beyond})"), {"most": most * MEGABYTE, **values}
    )
