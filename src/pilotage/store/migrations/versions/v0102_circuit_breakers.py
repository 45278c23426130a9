"""Circuit breakers have one table, with the deliveries that failed at storages and what operators lifted."""

import json
from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0102"
down_revision = "0101"

FAILED = ("transfer", "job", "attempt", "task", "node", "file", "source", "destination", "time", "error")


def upgrade() -> None:
    """Make the table, and move failed deliveries there: a row for each storage, or pair of them."""
    table = op.create_table(
        "circuit_breakers",
        sa.Column("kind", sa.String(), primary_key=True),
        sa.Column("place", sa.String(), primary_key=True),
        sa.Column("part", sa.String(), primary_key=True),
        sa.Column("failures", sa.String(), nullable=False, server_default=""),
        sa.Column("lifted", sa.Double()),
    )
    known = op.get_bind().execute(
        sa.text(f"SELECT {', '.join(FAILED)} FROM failed_deliveries ORDER BY time, transfer, job, attempt")
    )
    rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for found in known.mappings():
        rows[found["source"], found["destination"]].append(dict(found))
    moved = [
        {"kind": "storage", "place": source, "part": destination, "failures": json.dumps(row)}
        for (source, destination), row in sorted(rows.items())
    ]
    if moved:
        op.bulk_insert(table, moved)
    op.drop_table("failed_deliveries")
