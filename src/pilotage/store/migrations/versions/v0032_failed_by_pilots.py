"""Files that pilots could not read or write because of a storage count for its rests."""

import sqlalchemy as sa
from alembic import op

from pilotage.store.database.columns import Id

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    """Make the table anew, since its key grows: what it held spoke of the last minutes."""
    op.drop_table("failed_deliveries")
    op.create_table(
        "failed_deliveries",
        sa.Column("transfer", Id, autoincrement=False, nullable=False),
        sa.Column("job", Id, autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("task", Id, nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("file", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("destination", sa.String(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("transfer", "job", "attempt"),
    )
