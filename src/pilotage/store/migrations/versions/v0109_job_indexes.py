"""Jobs have an index within their task. Those that are there already have none."""

import sqlalchemy as sa
from alembic import op

revision = "0109"
down_revision = "0108"


def upgrade() -> None:
    """Add the column. Postgres and SQLite do so without touching a row."""
    op.add_column("jobs", sa.Column("job_index", sa.Integer(), nullable=True))
