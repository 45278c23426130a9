"""Transitions of records are events, which readers follow in the order of their commits."""

import sqlalchemy as sa
from alembic import op

revision = "0114"
down_revision = "0111"


def upgrade() -> None:
    """Add the log. What happened before stands in the histories of records alone."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "events",
        sa.Column("id", number, primary_key=True, autoincrement=True),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("meaning", number, nullable=False),
        sa.Column("task", sa.BigInteger(), nullable=False),
        sa.Column("records", sa.String(), nullable=False),
    )
