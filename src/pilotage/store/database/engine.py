"""Connections and transactions: one writer at a time, readers that never wait, and retries in one place.

SQLite: a writer begins with BEGIN IMMEDIATE, a reader keeps the state of its first query (WAL). Writers of
different processes wait for each other at a file beside the database: SQLite itself would only poll, with up
to 0.1 s delay. In memory there is one connection, and reads and writes take turns. PostgreSQL: a writer that
must be alone holds an advisory lock until it ends; the others lock the rows they change. A reader uses one
snapshot. Advisory locks apply to a whole database. If several Pilotages share one, each in its own schema,
the schema's name is part of the lock's name.
"""

import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.pool import PoolProxiedConnection, StaticPool

from pilotage.model.records.measurements import STORE_RETRIES
from pilotage.store.database.acts import due_act, with_record
from pilotage.store.database.commit_marks import CommitMarks, wait_for_disk
from pilotage.store.database.dialects import DIALECTS, POSTGRESQL, driver, sqlite_file
from pilotage.store.database.disk_wait import DiskWait
from pilotage.store.database.driver_errors import UNREACHED, hindrance, passes
from pilotage.store.database.kept_connections import BEGIN, KeptConnections
from pilotage.store.database.measurements import Measurements
from pilotage.store.database.reach import (
    CONNECTED_WITHIN,
    SERVES_A_CALLER,
    Reachability,
    in_unicode,
    too_long,
    watched_connection,
)
from pilotage.store.database.writer_lock import WriterLock

if TYPE_CHECKING:
    import sqlite3

    import psycopg

log = logging.getLogger(__name__)
T = TypeVar("T")

RETRY_FOR = 45.0
"""How long a transaction is tried again before its error is raised, in s: sooner than clients give up. One
that serves a caller is not tried again once the database is known to be away."""

LONGEST_PAUSE = 1.0
"""Longest pause between two tries, in s. The first ones are shorter."""

BUSY_TIMEOUT = 30.0
"""Seconds for which SQLite waits for another process's lock before the retry begins."""

WRITER_SILENCE = 10.0
"""Seconds of silence after which PostgreSQL ends a writer's transaction. The writer may hold the writer's
lock, or row locks that the only writer needs. So a frozen or disconnected server delays the others for at
most this time."""

READER_SILENCE = 300.0
"""The same for a reading transaction, in s. It delays no other transaction, but keeps old rows."""

LOCK_TIMEOUT = 30.0
"""Seconds for which a statement waits for a lock of PostgreSQL before it is retried."""

_PRIVATE: Mapping[str, Any] = {"hide_parameters": True}
"""Errors name no values of statements: these may be secrets, and errors are logged."""


class Database:
    """A SQLite file, a SQLite database in memory, or a PostgreSQL database. Safe to use from many threads."""

    def __init__(self, url: str, server: str = "") -> None:
        address = make_url(url)
        if address.get_backend_name() not in DIALECTS:
            raise ValueError(f"{url}: must begin with sqlite:///PATH or postgresql+psycopg://")
        self.server = server
        self.dialect = DIALECTS[address.get_backend_name()]
        session = self.session_of(server)
        self.reach = Reachability(partial(_question, address))
        make = self.dialect.choose(_sqlite, _postgresql)
        self.engine, self._readers, self._writers = make(address, session, self.reach)
        self._direct = _without_waiting(address, session, self.reach) if self.is_postgresql else None
        self._kept = None if self.is_postgresql else KeptConnections(self.engine)
        self._marks = CommitMarks()
        self._idle: list[tuple[PoolProxiedConnection, Any]] = []
        self.measurements = Measurements()
        file = sqlite_file(address)
        # Writers of other processes wait at a file, if there is one.
        self._writer_lock = WriterLock(file and Path(f"{file}-turn"))
        self._disk_wait = DiskWait(file) if file else None
        self._reader_turn = self._writer_lock if self.is_in_memory else contextlib.nullcontext()

    def close(self) -> None:
        """Return all connections."""
        self.reach.close()
        while self._idle:
            self._idle.pop()[0].close()
        if self._kept is not None:
            self._kept.close()
        self.engine.dispose()
        if self._direct is not None:
            self._direct.dispose()
        self._writer_lock.close()

    @staticmethod
    def session_of(server: str) -> str:
        """Return PostgreSQL's name for the sessions of a server; of other programs if ``server`` is empty."""
        return f"pilotage {server}".strip()

    def run(self, sql: str, values: Mapping[str, Any]) -> Sequence[Any]:
        """Run one PostgreSQL statement in its own transaction, without waiting for the disk.

        Its effect is consistent, but a crash of the server in the next moment may lose it.
        """
        if self._direct is None:
            raise ValueError("only PostgreSQL runs a statement outside of a transaction")
        retries = _Retries(self)
        while True:
            with retries:
                connection, cursor = self._spare(self._direct)
                try:
                    rows: Sequence[Any] = cursor.execute(sql, values, prepare=True).fetchall()
                except BaseException:
                    # Its state after an error is unknown: do not reuse it.
                    connection.invalidate()
                    raise
                self._idle.append((connection, cursor))
                return rows

    def look(self, sql: str, values: Mapping[str, Any]) -> Sequence[Any]:
        """Run one reading statement, with names as ``%(name)s``; on PostgreSQL without a transaction."""
        if self.is_postgresql:
            return self.run(sql, values)
        named = sql % {name: f":{name}" for name in values}
        return self.read(lambda connection: connection.exec_driver_sql(named, dict(values)).all())

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run ``work``, which only reads, on one snapshot."""
        retries = _Retries(self)
        while True:
            with retries, self._reader_turn, self._reading() as connection:
                return work(connection)

    def write(
        self, work: Callable[[Connection], T], alone: bool = True, tries: int = 0, is_audited: bool = True
    ) -> T:
        """Do ``work`` in one transaction, exactly once, and wait for the disk. If it fails, try again.

        It runs ``alone`` unless it may run beside others; only PostgreSQL can do that. Try again for
        ``RETRY_FOR`` s, or ``tries`` times in all if not 0. If PostgreSQL's answer to a COMMIT was lost, read
        the mark. The current act's record goes along if the work returns something true and ``is_audited``.
        """
        act = due_act() if is_audited else None
        result = self._write(with_record(work, act), alone or not self.is_postgresql, tries)
        if act is not None and result:
            act.settle()
        self.wait_for_disk()
        return result

    def wait_for_disk(self) -> None:
        """Wait until the commits of this process on SQLite are on the disk. PostgreSQL waits itself."""
        if self._disk_wait is not None:
            self._disk_wait.wait()

    def _write(self, work: Callable[[Connection], T], alone: bool, tries: int) -> T:
        unanswered: tuple[str, T] | None = None
        retries = _Retries(self, tries)
        with self._marks.writer() as writer:
            while True:
                with retries, self._writing(alone) as connection:
                    if unanswered and self._marks.is_last(connection, writer, unanswered[0]):
                        return unanswered[1]
                    unanswered, mark = None, ""
                    if self.is_postgresql:
                        mark = self._marks.begin(connection, writer, alone, WRITER_SILENCE)
                    result = work(connection)
                    if mark:
                        # Note it before the COMMIT at the end of the block: its answer may be lost.
                        unanswered = mark, result
                    return result

    def mark_commits(self) -> None:
        """Mark each commit from now on, so that a lost answer of PostgreSQL leaves no doubt about it."""
        if self.is_postgresql:
            self.write(self._marks.keep)

    def write_directly(self, work: Callable[["sqlite3.Connection"], T]) -> T:
        """Run ``work`` in one SQLite transaction, alone, over the driver's own connection.

        It does not wait for the disk. A few small statements take half the time that they take through
        SQLAlchemy.
        """
        retries = _Retries(self)
        while True:
            with retries, self._writing(True) as connection:
                return work(driver(connection))

    def _reading(self) -> contextlib.AbstractContextManager[Connection]:
        return self._readers.begin() if self._kept is None else self._kept.transaction("BEGIN")

    @contextlib.contextmanager
    def _writing(self, alone: bool) -> Iterator[Connection]:
        turn = self._writer_lock if alone else contextlib.nullcontext()
        if self._kept is not None:
            # Not BEGIN: SQLite refuses to make a reader a writer if another process has written since.
            with turn, self._kept.transaction("BEGIN IMMEDIATE") as connection:
                yield connection
            return
        with self._writers.connect() as connection:
            with turn, connection.begin():
                yield connection
            if alone:
                wait_for_disk(connection)

    def held_by(self) -> str:
        """Return the other process that may write SQLite's file now; empty if unknown."""
        return self._writer_lock.holder()

    def _spare(self, engine: Engine) -> tuple[PoolProxiedConnection, Any]:
        """Return an unused connection and its driver's cursor: making one takes as long as using it."""
        try:
            # Pop without checking first: another thread may take the last one in between.
            return self._idle.pop()
        except IndexError:
            connection = engine.raw_connection()
            return connection, connection.cursor()

    @property
    def is_in_memory(self) -> bool:
        """Return whether only this process has the database."""
        return not self.is_postgresql and sqlite_file(self.engine.url) is None

    @property
    def is_postgresql(self) -> bool:
        """Return whether writers may run side by side."""
        return self.dialect is POSTGRESQL


class _Retries:
    """Tries one transaction again after transient faults, ``limit`` times in all unless that is 0."""

    def __init__(self, database: Database, limit: int = 0) -> None:
        self._database, self._limit = database, limit
        self._failed, self._until = 0, 0.0

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> bool:
        """Return whether to try again, after a pause."""
        if error is None or not passes(error):
            return False
        self._failed += 1
        self._until = self._until or time.monotonic() + RETRY_FOR
        is_last = self._failed >= self._limit if self._limit else time.monotonic() >= self._until
        reach = self._database.reach
        if is_last or (reach.fault and SERVES_A_CALLER.get()):
            return False
        hindered = hindrance(error)
        self._database.measurements.count(STORE_RETRIES, (hindered,))
        if hindered in UNREACHED and self._database.is_postgresql:
            reach.doubt()
        pause = random.uniform(0, min(LONGEST_PAUSE, 0.01 * 2 ** min(self._failed, 10)))
        # Log only the driver's first line. The caller logs the whole error if the last try fails.
        reason = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
        log.warning("store: %s; try %d in %.2g s", reason.splitlines()[0], self._failed + 1, pause)
        time.sleep(pause)
        return True


def _question(url: URL) -> "psycopg.Connection[Any]":
    """Connect to PostgreSQL for one question, with short time limits."""
    url = url.set(drivername="postgresql+psycopg").update_query_dict(
        {"connect_timeout": f"{CONNECTED_WITHIN - 1}"}
    )
    arguments, options = url.get_dialect()().create_connect_args(url)
    return watched_connection(too_long).connect(*arguments, autocommit=True, **options)


def _postgresql(url: URL, session: str, reach: Reachability) -> tuple[Engine, Engine, Engine]:
    """Return the engine, and its versions for readers and for writers."""
    # Compiling takes longer than any of these statements.
    engine = _engine(url, session, reach, "READ COMMITTED", {"jit": "off"})
    readers = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return engine, readers, engine


def _without_waiting(url: URL, session: str, reach: Reachability) -> Engine:
    """Return the engine for single statements: planning one each time takes longer than running it."""
    # These look up few rows by key. A plan made for a small table would read the whole table for ever.
    settings = {
        "jit": "off",
        "enable_seqscan": "off",
        "synchronous_commit": "off",
        "plan_cache_mode": "force_generic_plan",
    }
    return _engine(url, session, reach, "AUTOCOMMIT", settings)


_BOUNDS = {
    "idle_in_transaction_session_timeout": f"{READER_SILENCE * 1000:.0f}",
    "lock_timeout": f"{LOCK_TIMEOUT * 1000:.0f}",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25000",
}
"""Settings of every session: both ends notice within half a minute that the other vanished."""


_KEEPALIVES = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
"""The client's half: the same times in s, the last in ms."""


def _engine(
    url: URL,
    session: str,
    reach: Reachability,
    isolation_level: Literal["READ COMMITTED", "AUTOCOMMIT"],
    settings: Mapping[str, str],
) -> Engine:
    """Return an engine that gives its sessions this name, these settings and ``_BOUNDS``."""
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        isolation_level=isolation_level,
        **_PRIVATE,
        pool_size=16,
        max_overflow=32,
        connect_args={"application_name": session, "connect_timeout": CONNECTED_WITHIN, **_KEEPALIVES},
    )
    set_ = [f"set_config('{name}', '{value}', false)" for name, value in {**_BOUNDS, **settings}.items()]

    def prepare(connection: "psycopg.Connection[Any]", _record: Any) -> None:
        # Not as options of the connection: PgBouncer refuses these, or drops them.
        connection.execute(f"SELECT {', '.join(set_)}")
        connection.commit()

    watched = watched_connection(reach.look)

    def connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        reach.check()
        if SERVES_A_CALLER.get():
            # A frozen server accepts connections, but never answers.
            reach.doubt()
        return in_unicode(watched.connect(*arguments, **options))

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "connect", prepare)
    return engine


def _sqlite(url: URL, _session: str, _reach: Reachability) -> tuple[Engine, Engine, Engine]:
    """Return the engine, and its versions for readers and for writers."""
    file = sqlite_file(url)
    if file is None:
        engine = create_engine(
            url, poolclass=StaticPool, connect_args={"check_same_thread": False}, **_PRIVATE
        )
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(
            url, pool_size=16, max_overflow=32, connect_args={"timeout": BUSY_TIMEOUT}, **_PRIVATE
        )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine, engine, engine


def _prepare_sqlite(connection: "sqlite3.Connection", _record: Any) -> None:
    """Stop the driver from beginning transactions itself: it begins too late, and never IMMEDIATE."""
    connection.isolation_level = None
    for setting in (
        "journal_mode=WAL",
        # Commits wait for the disk after their turn. A power failure may undo one, but leaves no half of it.
        "synchronous=NORMAL",
        "foreign_keys=ON",
        "temp_store=MEMORY",
        # In kB per connection.
        "cache_size=-16384",
        "journal_size_limit=67108864",
        # Pages of 4 kB: rarer than the default, because a committing writer waits for the checkpoint.
        "wal_autocheckpoint=8000",
    ):
        connection.execute(f"PRAGMA {setting}").close()


def _begin_sqlite(connection: Connection) -> None:
    if begin := connection.get_execution_options().get(BEGIN, "BEGIN"):
        connection.exec_driver_sql(begin)
