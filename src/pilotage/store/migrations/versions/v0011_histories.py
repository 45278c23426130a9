"""What a job leaves is small: its history stands in its row, and no index of states has what has ended."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

TABLES = {"task": "tasks", "job": "jobs", "transfer": "transfers", "pilot": "pilots"}
WAITING_AND_RUNNING = (
    "state IN ('pending', 'defined', 'assigned', 'activated', 'sent', 'starting', 'running', 'holding', "
    "'transferring', 'merging')"
)
SLICE = 10_000


def upgrade() -> None:
    """Bring the events of each record into its row; note the last number of each kind."""
    op.create_table(
        "meanings",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("source", sa.String(), server_default="", nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("cause", sa.String(), server_default="", nullable=False),
        sa.Column("actor", sa.String(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("meanings_once", "meanings", ["kind", "source", "target", "cause", "actor"], unique=True)
    op.create_table(
        "numbers",
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("last", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("kind"),
    )
    for kind, table in (*TABLES.items(), ("decision", "decisions")):
        last = f"SELECT '{kind}', max(id) FROM {table} HAVING max(id) IS NOT NULL"
        op.execute(f"INSERT INTO numbers (kind, last) {last}")
    for table in TABLES.values():
        op.add_column(table, sa.Column("history", sa.String(), server_default="", nullable=False))
    _convert(op.get_bind())
    op.drop_table("events")
    op.drop_index("jobs_by_state", "jobs")
    op.create_index(
        "jobs_by_state",
        "jobs",
        ["state", "since", "id"],
        sqlite_where=sa.text(WAITING_AND_RUNNING),
        postgresql_where=sa.text(WAITING_AND_RUNNING),
    )


def _convert(connection: sa.Connection) -> None:
    known: dict[tuple[str, ...], int] = {}
    for kind, table in TABLES.items():
        save = sa.text(f"UPDATE {table} SET history = :history WHERE id = :id")
        rows: list[dict[str, object]] = []
        for record, happened in groupby(_events(connection, kind), lambda event: event.record):
            history = "".join(_entry(connection, known, event) for event in happened)
            rows.append({"id": record, "history": history})
            if len(rows) == SLICE:
                connection.execute(save, rows)
                rows = []
        if rows:
            connection.execute(save, rows)


def _events(connection: sa.Connection, kind: str) -> Iterator[sa.Row[Any]]:
    """Slice by slice of the records, in order: all of them may not fit into memory."""
    last = connection.execute(sa.text("SELECT max(record) FROM events WHERE kind = :kind"), {"kind": kind})
    for start in range(0, (last.scalar() or 0) + 1, SLICE):
        yield from connection.execute(
            sa.text(
                "SELECT * FROM events WHERE kind = :kind AND record >= :start AND record < :end"
                " ORDER BY record, id"
            ),
            {"kind": kind, "start": start, "end": start + SLICE},
        ).all()


def _entry(
    connection: sa.Connection, known: dict[tuple[str, ...], int], event: sa.Row[tuple[object, ...]]
) -> str:
    """The line of ``store/tables/history.py`` as it was when this was written."""
    pilot = event.actor.removeprefix("pilot:")
    by_pilot = pilot != event.actor and pilot.isdecimal()
    actor = "pilot:" if by_pilot else event.actor[:150]
    meaning = (event.kind, event.source or "", event.target, event.cause[:400], actor)
    if meaning not in known:
        known[meaning] = len(known) + 1
        names = ("kind", "source", "target", "cause", "actor")
        connection.execute(
            sa.text(
                "INSERT INTO meanings (kind, source, target, cause, actor)"
                " VALUES (:kind, :source, :target, :cause, :actor)"
            ),
            dict(zip(names, meaning, strict=True)),
        )
    words = [str(known[meaning]), _base36(round(event.time * 1000))]
    words += [f"a{event.attempt}"] if event.attempt != 1 else []
    words += [f"p{pilot}"] if by_pilot else []
    words += [f"d{event.decision}"] if event.decision is not None else []
    return " ".join(words) + "\n"


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"
