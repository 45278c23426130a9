"""Servers that share a store know of each other: their heartbeats, and leases of work for one of them."""

import sqlalchemy as sa
from alembic import op

revision = "0128"
down_revision = "0125"


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=False, server_default="")


def upgrade() -> None:
    """Add the tables, and which server submits a pilot. Servers of before are in neither."""
    op.create_table(
        "servers",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("version", sa.String(), nullable=False),
        *map(_text, ("host", "process", "url", "loops")),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.Column("gone", sa.Double()),
        sa.Column("silent_for", sa.Double()),
        sa.Column("report", sa.Text(), nullable=False, server_default=""),
    )
    op.create_table(
        "leases",
        sa.Column("work", sa.String(), primary_key=True),
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
    )
    op.add_column("pilots", _text("server"))
