"""Server processes that share the store: table, heartbeats, the removal of silent servers, and leases.

A lease reserves some work for one server at a time. It lasts as long as its server.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    String,
    Table,
    Text,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from pilotage.model.records.servers import LoopPass, ServerActivity, ServerProcess
from pilotage.store.database.columns import metadata, text_column
from pilotage.store.database.engine import Database
from pilotage.store.database.errors import LeaseLost
from pilotage.store.database.rows import among, raw_rows

leases = Table(
    "leases",
    metadata,
    Column("work", String, primary_key=True),
    Column("server", String, nullable=False),
    Column("since", Double, nullable=False),
)

_l = leases.c
_HOLDER = select(_l.server).where(_l.work == bindparam("of"))
_HELD = select(_l.work, _l.server, _l.since)
_TAKE_OVER = (
    update(leases)
    .where(_l.work == bindparam("of"), _l.server == bindparam("before"))
    .values(server=bindparam("by"), since=bindparam("at"))
)
_GIVE_BACK = delete(leases).where(_l.work == bindparam("of"), _l.server == bindparam("by"))


class Leases:
    """Gives each piece of work to one server at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, work: str, server: str, time: float, is_gone: Callable[[str], bool]) -> bool:
        """Take the lease of some work. Return False while another server has it and is not gone."""
        holder = self._database.read(lambda connection: _holder(connection, work))
        if holder == server:
            return True
        if holder is not None and not is_gone(holder):
            return False

        def write(connection: Connection) -> bool:
            if holder is None and _holder(connection, work) is None:
                connection.execute(insert(leases), {"work": work, "server": server, "since": time})
                return True
            values = {"of": work, "before": holder, "by": server, "at": time}
            return connection.execute(_TAKE_OVER, values).rowcount > 0

        return self._database.write(write, is_audited=False)

    def give_back(self, work: str, server: str) -> None:
        """End the lease of a server, if it still has it."""
        values = {"of": work, "by": server}
        self._database.write(lambda connection: connection.execute(_GIVE_BACK, values), is_audited=False)

    def holders(self) -> dict[str, str]:
        """Return the server that has each lease, by work."""
        return self._database.read(lambda connection: {row[0]: row[1] for row in raw_rows(connection, _HELD)})


def require(connection: Connection, work: str, server: str) -> None:
    """Raise ``LeaseLost`` inside a transaction unless a server has the lease of some work."""
    if _holder(connection, work) != server:
        raise LeaseLost(work)


def _holder(connection: Connection, work: str) -> str | None:
    rows = raw_rows(connection, _HOLDER, of=work)
    return rows[0][0] if rows else None


KEPT_FOR = 86_400.0
"""Seconds for which lists show a server that is gone."""

servers = Table(
    "servers",
    metadata,
    Column("name", String, primary_key=True),
    Column("version", String, nullable=False),
    text_column("host"),
    text_column("process"),
    text_column("url"),
    text_column("loops"),
    Column("started", Double, nullable=False),
    Column("seen", Double, nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("gone", Double),
    Column("silent_for", Double),
    Column("report", Text, nullable=False, server_default=""),
)

_s = servers.c
_SHOWN = (
    *(_s.name, _s.version, _s.host, _s.process, _s.url, _s.loops, _s.started, _s.seen, _s.gone),
    *(_s.silent_for, _s.report),
)
_ALL = select(*_SHOWN).order_by(_s.started, _s.name)
_PRESENT = select(_s.name, _s.beat, _s.gone, _s.process, _s.loops)
_NAMED = _PRESENT.where(among(_s.name, "names"))
_MINE = _s.name == bindparam("its_name")
_BEAT = (
    update(servers)
    .where(_MINE)
    .values(beat=_s.beat + 1, seen=bindparam("at"), report=bindparam("told"), gone=None, silent_for=None)
)
_BEAT_ALONE = """
WITH mine AS (
  UPDATE servers SET beat = beat + 1, seen = %(at)s, report = %(told)s, gone = NULL, silent_for = NULL
  WHERE name = %(its_name)s RETURNING name
)
SELECT name, beat, gone, process, loops, EXISTS (SELECT FROM mine) FROM servers"""
_LEAVE = update(servers).where(_MINE).values(gone=bindparam("at"), silent_for=None)
_SILENT = (
    update(servers)
    .where(_MINE, _s.beat == bindparam("known_beat"), _s.gone.is_(None))
    .values(gone=bindparam("at"), silent_for=bindparam("waited"))
)
_OLD = delete(servers).where(_s.gone < bindparam("before"))
_CUT_OFF = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name = %(session)s AND datname = current_database() AND pid <> pg_backend_pid()"""


@dataclass(frozen=True, slots=True)
class ServerBeat:
    """The heartbeat of a server: ``beat`` grows while it runs. It ended at ``gone``, in s since 1970.

    ``loops`` are the names of its loops, with blanks between them.
    """

    name: str
    beat: int
    gone: float | None
    process: str
    loops: str


class Servers:
    """Writes and reads the server processes of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def join(self, server: ServerProcess) -> None:
        """Record a server that starts. Forget servers that have been gone for ``KEPT_FOR`` s."""

        def write(connection: Connection) -> None:
            connection.execute(_OLD, {"before": server.started - KEPT_FOR})
            connection.execute(insert(servers), _row(server))

        self._database.write(write)

    def beat(self, server: ServerProcess, report: ServerActivity, time: float) -> tuple[ServerBeat, ...]:
        """Record that a server runs. Return all servers as they were before.

        A server that the store has deleted joins again.
        """
        values = {"its_name": server.name, "at": time, "told": _written(report)}
        if self._database.is_postgresql:
            rows = self._database.run(_BEAT_ALONE, values)
            if not (rows and rows[0][5]):
                self.join(server)
            return tuple(ServerBeat(*row[:5]) for row in rows)

        def write(connection: Connection) -> tuple[bool, tuple[ServerBeat, ...]]:
            beats = _heartbeats(connection)
            return connection.execute(_BEAT, values).rowcount > 0, beats

        is_known, beats = self._database.write(write)
        if not is_known:
            self.join(server)
        return beats

    def leave(self, name: str, time: float) -> None:
        """Record that a server has ended normally."""
        self._database.write(lambda connection: connection.execute(_LEAVE, {"its_name": name, "at": time}))

    def found_silent(self, beat: ServerBeat, time: float, waited: float) -> bool:
        """Record that a silent server is gone, unless it has beaten again. Return False if that was recorded.

        This does not wait to be the only writer: the silent server may be that.
        """
        values = {"its_name": beat.name, "known_beat": beat.beat, "at": time, "waited": waited}
        return self._database.write(
            lambda connection: connection.execute(_SILENT, values).rowcount > 0, alone=False
        )

    def cut_off(self, name: str) -> int:
        """End the sessions of a silent server at PostgreSQL. Return their number.

        Its open transactions roll back and release their locks. Raises the database's error if the account
        may not do this.
        """
        if not self._database.is_postgresql:
            return 0
        return int(self._database.run(_CUT_OFF, {"session": self._database.session_of(name)})[0][0])

    def named(self, names: Collection[str]) -> tuple[ServerBeat, ...]:
        """Return the servers with these names that the store has."""
        return self._database.read(
            lambda connection: tuple(
                ServerBeat(*row) for row in raw_rows(connection, _NAMED, names=sorted(names))
            )
        )

    def everything(self) -> tuple[ServerProcess, ...]:
        """Return all servers that the store has, the oldest first."""
        return self._database.read(
            lambda connection: tuple(_server(row) for row in raw_rows(connection, _ALL))
        )


def _heartbeats(connection: Connection) -> tuple[ServerBeat, ...]:
    return tuple(ServerBeat(*row) for row in raw_rows(connection, _PRESENT))


def _row(server: ServerProcess) -> Mapping[str, Any]:
    return {
        **{name: getattr(server, name) for name in ("name", "version", "host", "process", "url")},
        "loops": " ".join(server.loops),
        "started": server.started,
        "seen": server.seen,
        "beat": 0,
        "report": _written(server.report),
    }


def _written(report: ServerActivity) -> str:
    return json.dumps(asdict(report), separators=(",", ":"))


def _read(text: str) -> ServerActivity:
    document = json.loads(text or "{}")
    passes = {name: LoopPass(**values) for name, values in document.get("passes", {}).items()}
    return ServerActivity(passes=passes, lacks=tuple(document.get("lacks", ())))


def _server(row: Any) -> ServerProcess:
    values = dict(zip((column.name for column in _SHOWN), row, strict=True))
    return ServerProcess(
        **values | {"loops": tuple(values["loops"].split()), "report": _read(values["report"])}
    )
