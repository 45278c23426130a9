"""Ends of tokens and certificates, as a server saw them last: any server shows them as metrics."""

from collections.abc import Sequence
from dataclasses import fields

from sqlalchemy import Column, Connection, Double, String, Table, delete, insert, select

from pilotage.model.rules.credential_ends import CredentialEnd
from pilotage.store.database.columns import metadata, text_column
from pilotage.store.database.engine import Database
from pilotage.store.database.rows import raw_rows

credential_ends = Table(
    "credential_ends",
    metadata,
    Column("kind", String, primary_key=True),
    Column("name", String, primary_key=True),
    text_column("text"),
    Column("begin", Double),
    Column("end", Double, nullable=False),
    text_column("mend"),
    text_column("effect"),
    text_column("holder"),
    text_column("vo"),
    Column("first_seen", Double, nullable=False),
)

_e = credential_ends.c
_COLUMNS = [field.name for field in fields(CredentialEnd)]
_ALL = select(*(_e[name] for name in _COLUMNS)).order_by(_e.end, _e.kind, _e.name)


class CredentialEnds:
    """Keeps the ends that the last survey saw."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[CredentialEnd]:
        """Return all ends, the next first."""
        return self._database.read(_all)

    def replace(self, ends: Sequence[CredentialEnd], now: float) -> list[CredentialEnd]:
        """Replace all ends. Return the new ones, each with the time at which a server first saw it."""

        def write(connection: Connection) -> list[CredentialEnd]:
            times = {(row.kind, row.name, row.end): row.first_seen for row in _all(connection)}
            rows = [
                {name: getattr(row, name) for name in _COLUMNS}
                | {"first_seen": times.get((row.kind, row.name, row.end), now)}
                for row in ends
            ]
            connection.execute(delete(credential_ends))
            if rows:
                connection.execute(insert(credential_ends), rows)
            return _all(connection)

        return self._database.write(write)


def _all(connection: Connection) -> list[CredentialEnd]:
    return [CredentialEnd(**dict(zip(_COLUMNS, row, strict=True))) for row in raw_rows(connection, _ALL)]
