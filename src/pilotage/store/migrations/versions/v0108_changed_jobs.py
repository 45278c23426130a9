"""People and retries change what a task says for single jobs (set, retry --set)."""

import sqlalchemy as sa
from alembic import op

revision = "0108"
down_revision = "0104"


def upgrade() -> None:
    """Add the changes, and who made them; nothing of earlier work is changed."""
    for table, name in (("tasks", "changes"), ("tasks", "change_notes"), ("jobs", "changes")):
        op.add_column(table, sa.Column(name, sa.String(), nullable=False, server_default=""))
