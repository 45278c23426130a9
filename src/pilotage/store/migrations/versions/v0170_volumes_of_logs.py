"""Everybody's bytes of logs, so that the limits are held without reading all logs."""

import sqlalchemy as sa
from alembic import op

revision = "0170"
down_revision = "0137"


def upgrade() -> None:
    """Make the table, which the first server fills. The index of logs by owner no longer has their sizes."""
    op.create_table(
        "log_volumes",
        sa.Column("vo", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("stored", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("vo", "owner"),
    )
    op.drop_index("logs_by_owner", table_name="logs")
    op.create_index("logs_by_owner", "logs", ["vo", "owner", "time"])
