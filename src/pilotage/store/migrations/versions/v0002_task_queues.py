"""Task queues by priority, and the differences that commits side by side leave."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the tables, and fill the task queues from the jobs that wait."""
    op.create_table(
        "task_queues",
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("requirements", sa.String(), nullable=False),
        sa.Column("priority", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("jobs", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("queue", "requirements", "priority"),
    )
    op.create_table(
        "activations",
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("queue"),
    )
    op.create_table(
        "job_deltas",
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("share", sa.String(), nullable=False),
        sa.Column("task", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("requirements", sa.String(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
    )
    op.execute(
        "INSERT INTO task_queues SELECT queue, requirements, priority, count(*) FROM jobs"
        " WHERE state = 'activated' GROUP BY queue, requirements, priority"
    )
    op.execute("DELETE FROM counters WHERE counter = 'jobs_by_task_queue'")
