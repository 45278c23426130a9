"""The disk I/O of a queue is that of the jobs that run there now (B12)."""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"

KEPT = "queue, last_pilot, last_start, mean_run"


def upgrade() -> None:
    """Make the index, without rates of earlier attempts; drop the mean of jobs that have ended."""
    op.execute("UPDATE jobs SET disk_io = NULL WHERE state = 'running' AND disk_io IS NOT NULL")
    measured = sa.text("state = 'running' AND disk_io IS NOT NULL")
    op.create_index(
        "jobs_by_disk_io",
        "jobs",
        ["state", "queue", "disk_io"],
        sqlite_where=measured,
        postgresql_where=measured,
    )
    _drop_the_mean()


def _drop_the_mean() -> None:
    """Make the table again: on PostgreSQL a dropped column would leave a gap in the order of the others."""
    op.execute(f"CREATE TABLE kept_reports AS SELECT {KEPT} FROM queue_reports")
    op.drop_table("queue_reports")
    op.create_table(
        "queue_reports",
        sa.Column("queue", sa.String(), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=True) for name in ("last_pilot", "last_start", "mean_run")),
        sa.PrimaryKeyConstraint("queue"),
    )
    op.execute(f"INSERT INTO queue_reports ({KEPT}) SELECT {KEPT} FROM kept_reports")
    op.drop_table("kept_reports")
