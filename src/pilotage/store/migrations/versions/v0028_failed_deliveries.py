"""Deliveries that failed through a storage, which rests after some in a row."""

import sqlalchemy as sa
from alembic import op

from pilotage.store.database.columns import Id

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "failed_deliveries",
        sa.Column("transfer", Id, autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("file", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("destination", sa.String(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("transfer", "attempt"),
    )
