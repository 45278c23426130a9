"""Results that wait in sites' spools: their place and manifest, and when a server fetches them next."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    PrimaryKeyConstraint,
    Table,
    bindparam,
    delete,
    exists,
    or_,
    select,
    text,
    update,
)

from pilotage.model.records.observations import WaitingResults
from pilotage.store.database import bulk
from pilotage.store.database.columns import metadata
from pilotage.store.database.engine import Database
from pilotage.store.database.record_columns import maker, read_columns, record_columns
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.jobs.table import jobs

AT_ONCE = 100
"""Most results that one pass begins to take."""

AGAIN = 60.0
"""Seconds until a failed try is repeated."""

LONGEST = 3600.0
"""Seconds that one try may take. After that another server tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledResults(WaitingResults):
    """Results with their ``place`` in the spool of a computing element's ``server``, and their ``manifest``.

    A server fetches them at ``due`` or later.
    """

    server: str
    place: str
    manifest: str
    due: float


waiting_results = Table(
    "waiting_results",
    metadata,
    *record_columns(SpooledResults),
    Column("courier", BigInteger, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("job", "attempt"),
    Index("waiting_results_due", "due"),
)
_w = waiting_results.c
_COLUMNS = read_columns(waiting_results, SpooledResults)
_ALL = select(*read_columns(waiting_results, WaitingResults)).order_by(_w.since, _w.job)
_OF_TASK = _ALL.where(_w.job == jobs.c.id, jobs.c.task == bindparam("task"))
_OF_JOBS = _ALL.where(among(_w.job, "jobs"))
_waiting, _spooled = maker(WaitingResults), maker(SpooledResults)
_ONE = (_w.job == bindparam("of"), _w.attempt == bindparam("try"))
_DUE = select(*_COLUMNS).where(_w.due <= bindparam("now")).order_by(_w.due).limit(AT_ONCE)
_PUT_OFF = update(waiting_results).where(*_ONE).values(due=bindparam("next"), problem=bindparam("why"))
_TAKEN = update(waiting_results).where(*_ONE).values(due=bindparam("next"))
_SAME = select(_w.manifest).where(*_ONE)
_CARRIED = select(*_COLUMNS).where(*_ONE, _w.courier == bindparam("by"))
# A server that takes results sets them due much later.
_IS_FREE = or_(_w.due <= bindparam("soon"), _w.courier == bindparam("by"))
_GIVE = update(waiting_results).where(*_ONE, _IS_FREE).values(courier=bindparam("by"), due=bindparam("next"))
_DELETE = delete(waiting_results).where(*_ONE)


class ResultsInSpools:
    """Records results in spools until a server fetches them or a pilot delivers them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: Sequence[SpooledResults]) -> None:
        """Record results. Results that are recorded already stay unchanged."""
        rows, names = [astuple(results) for results in new], [column.name for column in _COLUMNS]

        def write(connection: Connection) -> None:
            bulk.insert(connection, waiting_results, names, rows, once=True)

        if rows:
            self._database.write(write, alone=False)

    def everything(self) -> tuple[WaitingResults, ...]:
        """Return all waiting results, the oldest first."""
        return self._database.read(everything)

    def of_task(self, task: int) -> tuple[WaitingResults, ...]:
        """Return the waiting results of a task's jobs, the oldest first."""
        return self._database.read(lambda connection: _records(raw_rows(connection, _OF_TASK, task=task)))

    def take_due(self, now: float) -> list[SpooledResults]:
        """Return the results that are due, and let them be due again later. ``done`` deletes them."""
        if not self._database.read(lambda connection: connection.execute(_DUE, {"now": now}).first()):
            return []
        return self._database.write(lambda connection: _take_due(connection, now), alone=False)

    def manifest(self, job: int, attempt: int) -> str | None:
        """Return the manifest of an attempt's results; None if none wait."""
        values = {"of": job, "try": attempt}
        return self._database.read(lambda connection: connection.execute(_SAME, values).scalar())

    def give(self, job: int, attempt: int, pilot: int, now: float) -> bool:
        """Let a pilot deliver results, in the time that a server has. Return False if another pilot does."""
        values = {"of": job, "try": attempt, "by": pilot, "soon": now + AGAIN, "next": now + LONGEST}
        return bool(
            self._database.write(lambda connection: connection.execute(_GIVE, values).rowcount, alone=False)
        )

    def carried(self, job: int, attempt: int, pilot: int) -> SpooledResults | None:
        """Return the results of an attempt if this pilot delivers them; else None."""
        values = {"of": job, "try": attempt, "by": pilot}
        row = self._database.read(lambda connection: connection.execute(_CARRIED, values).first())
        return _spooled(row) if row else None

    def put_off(self, results: WaitingResults, now: float, problem: str) -> None:
        """Record that a try failed, and set the time of the next one."""
        values = {"of": results.job, "try": results.attempt, "next": now + AGAIN, "why": problem}
        self._database.write(lambda connection: connection.execute(_PUT_OFF, values) and None, alone=False)

    def done(self, results: WaitingResults) -> None:
        """Delete results that were fetched, or that are not wanted."""
        values = {"of": results.job, "try": results.attempt}
        self._database.write(lambda connection: connection.execute(_DELETE, values) and None, alone=False)


def is_waiting(time: str) -> ColumnElement[bool]:
    """Return the condition that an attempt has waiting results, not given up at the parameter ``time``."""
    same = (_w.job == jobs.c.id, _w.attempt == jobs.c.attempt, _w.pilot == jobs.c.pilot)
    return exists().where(*same, _w.until > bindparam(time))


def of_jobs(connection: Connection, ids: Sequence[int]) -> tuple[WaitingResults, ...]:
    """Return the waiting results of these jobs."""
    return _records(raw_rows(connection, _OF_JOBS, jobs=ids))


def everything(connection: Connection) -> tuple[WaitingResults, ...]:
    """Return all waiting results, the oldest first."""
    return _records(raw_rows(connection, _ALL))


def _records(rows: Iterable[Sequence[Any]]) -> tuple[WaitingResults, ...]:
    return tuple(map(_waiting, rows))


def _take_due(connection: Connection, now: float) -> list[SpooledResults]:
    batch = [*map(_spooled, connection.execute(_DUE, {"now": now}))]
    if batch:
        later = [{"of": results.job, "try": results.attempt, "next": now + LONGEST} for results in batch]
        connection.execute(_TAKEN, later)
    return batch
