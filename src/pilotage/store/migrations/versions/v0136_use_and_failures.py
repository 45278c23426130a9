"""The use of shares by hour, and failed attempts by day, of the last weeks."""

import sqlalchemy as sa
from alembic import op

revision = "0136"
down_revision = "0148"


def upgrade() -> None:
    """Add the tables. They begin empty."""
    op.create_table(
        "share_hours",
        sa.Column("hour", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("share", sa.String(), primary_key=True),
        sa.Column("samples", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=False) for name in ("running", "used", "target")),
    )
    op.create_table(
        "daily_failures",
        sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.String(), primary_key=True) for name in ("vo", "owner", "queue", "error")),
        sa.Column("attempts", sa.Integer(), nullable=False),
    )
