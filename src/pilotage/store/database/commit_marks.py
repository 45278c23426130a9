"""Marks of the last commits on PostgreSQL, one for each writer: they show whether a commit arrived.

A process reads its mark if it got no answer. PostgreSQL's transaction numbers are not enough: after a crash
or a promotion another transaction may get the number of a lost one.
"""

import itertools
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, Double, String, Table, text

from pilotage.store.database.columns import metadata

if TYPE_CHECKING:
    import psycopg

KEPT_FOR = 86400.0
"""Seconds without a commit before a writer's mark is deleted."""

commit_marks = Table(
    "commit_marks",
    metadata,
    Column("writer", String, primary_key=True),
    Column("mark", String, nullable=False),
    Column("time", Double, nullable=False),
)

_ALONE = "pg_advisory_xact_lock(7236140, hashtext(current_schema()))"
_BEGIN = "SELECT set_config('idle_in_transaction_session_timeout', :silence, true)"
_MARKED = f"""
WITH marked AS (
  INSERT INTO commit_marks (writer, mark, time)
  VALUES (:writer, :mark, extract(epoch FROM clock_timestamp()))
  ON CONFLICT (writer) DO UPDATE SET mark = excluded.mark, time = excluded.time
) {_BEGIN}"""
# By whether the transaction is marked, and alone.
_STATEMENTS = {
    (False, False): text(_BEGIN),
    (False, True): text(f"{_BEGIN}, {_ALONE}"),
    (True, False): text(_MARKED),
    (True, True): text(f"{_MARKED}, set_config('synchronous_commit', 'off', true), {_ALONE}"),
}
_LAST = text("""
INSERT INTO commit_marks (writer, mark, time) VALUES (:writer, '', extract(epoch FROM clock_timestamp()))
ON CONFLICT (writer) DO UPDATE SET time = excluded.time RETURNING mark""")
_FORGET = text("DELETE FROM commit_marks WHERE time < extract(epoch FROM clock_timestamp()) - :age")


class CommitMarks:
    """Marks the commits of one process, once the table is there.

    Only an upgrade writes before. It does nothing a second time, so it needs no mark.
    """

    def __init__(self) -> None:
        self._are_kept = False
        self._process, self._free = secrets.token_hex(8), list[str]()
        self._numbers = itertools.count(1)

    def keep(self, connection: Connection) -> None:
        """Mark from now on. Delete the marks of processes that are gone."""
        connection.execute(_FORGET, {"age": KEPT_FOR})
        self._are_kept = True

    @contextmanager
    def writer(self) -> Iterator[str]:
        """Give a writer's name that no other transaction uses now. Free names are used again."""
        try:
            writer = self._free.pop()
        except IndexError:
            writer = f"{self._process}-{next(self._numbers)}"
        try:
            yield writer
        finally:
            self._free.append(writer)

    def begin(self, connection: Connection, writer: str, alone: bool, silence: float) -> str:
        """Begin a transaction, which PostgreSQL ends after so many s of ``silence``. Return its mark.

        Wait to be the only writer if ``alone``. Then a marked commit does not wait for the disk: others could
        not write for that time. The caller waits afterwards.
        """
        mark = secrets.token_hex(8) if self._are_kept else ""
        values = {"writer": writer, "mark": mark} if mark else {}
        statement = _STATEMENTS[bool(mark), alone]
        connection.execute(statement, {**values, "silence": f"{silence * 1000:.0f}ms"})
        return mark

    def is_last(self, connection: Connection, writer: str, mark: str) -> bool:
        """Return whether the writer's last commit has this mark. Wait for one that is still under way."""
        return bool(connection.execute(_LAST, {"writer": writer}).scalar_one() == mark)


def wait_for_disk(connection: Connection) -> None:
    """Wait until PostgreSQL, and a synchronous replica, have this session's commits on the disk.

    It is the same session, so a crash since the commit raises an error here.
    """
    session: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]
    try:
        session.autocommit = True
        # The commit of a transaction that wrote to the log waits for all of the log before it.
        session.execute("SELECT pg_logical_emit_message(true, 'pilotage', '')")
        session.autocommit = False
    except BaseException:
        connection.invalidate()
        raise
