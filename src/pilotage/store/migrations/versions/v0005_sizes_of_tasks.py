"""How many jobs and input files a task has, for quotas."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns; tasks from before count nothing."""
    op.add_column("tasks", sa.Column("planned_jobs", sa.Integer(), server_default="0", nullable=False))
    op.add_column("tasks", sa.Column("input_files", sa.Integer(), server_default="0", nullable=False))
