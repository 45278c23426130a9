"""The tables of the audit, and how a record becomes a row.

Rows are only added; the retention deletes old ones.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Column, Connection, Double, Index, Integer, String, Table, Text

from pilotage.model.records.audit import AuditRecord, NewAuditRecord
from pilotage.store.database.columns import Id, metadata
from pilotage.store.database.dialects import POSTGRESQL, dialect_of
from pilotage.store.history.settled_numbers import TURN

_TYPES: Mapping[str, Any] = {"time": Double, "times": Integer, "before": Text, "after": Text}
_DETAILS = ("before", "after")

COLUMNS = tuple(field.name for field in fields(NewAuditRecord))

audit_records = Table(
    "audit_records",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    *(Column(name, _TYPES.get(name, String), nullable=False) for name in COLUMNS),
    Index("audit_by_person", "vo", "person", "id"),
    Index("audit_by_owner", "owner_vo", "owner", "id"),
)

audit_links = Table(
    "audit_links",
    metadata,
    Column("record", Id, primary_key=True, autoincrement=False),
    Column("previous", Id, nullable=False),
    Column("hash", String, nullable=False),
)
"""A link for each record: its hash is over the record and the hash of the ``previous`` one."""

SEQUENCE = "audit_records_id_seq"
"""PostgreSQL's sequence of their numbers."""


def write(connection: Connection, record: NewAuditRecord) -> None:
    """Add a record."""
    dialect = dialect_of(connection)
    statement = dialect.insert(audit_records, COLUMNS)
    if dialect is POSTGRESQL:
        # The condition takes the lock before the row gets its number.
        statement = f"{TURN} {statement} WHERE (SELECT true FROM turn)"
    dialect.run(connection, statement, [_values(record)])


def _values(record: NewAuditRecord) -> tuple[Any, ...]:
    values = {name: getattr(record, name) for name in COLUMNS}
    return tuple(
        json.dumps(value, separators=(",", ":")) if name in _DETAILS else value
        for name, value in values.items()
    )


def record_of(row: Sequence[Any]) -> AuditRecord:
    """Return the record of a row: its number, then ``COLUMNS``."""
    values = dict(zip(("id", *COLUMNS), row, strict=True))
    return AuditRecord(**values | {name: json.loads(values[name]) for name in _DETAILS})
