"""The disk I/O of each job, and its mean at each queue (B12)."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the columns; of jobs that have ended already it is not known."""
    op.add_column("jobs", sa.Column("disk_io", sa.Double(), nullable=True))
    op.add_column("queue_reports", sa.Column("disk_io", sa.Double(), nullable=True))
