"""Tasks name the request that they came with."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column; older tasks have no name, which any number of tasks may have."""
    op.add_column("tasks", sa.Column("submission", sa.String()))
    op.create_index("tasks_by_submission", "tasks", ["submission"], unique=True)
