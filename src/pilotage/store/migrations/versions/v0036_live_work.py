"""The unfinished work of owners is added up from an index alone."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"

LIVE = ("registered", "scouting", "splitting", "running", "merging")


def upgrade() -> None:
    """Make the index."""
    compared = " OR ".join(f"state = '{state}'" for state in LIVE)
    listed = ", ".join(f"'{state}'" for state in LIVE)
    op.create_index(
        "tasks_live",
        "tasks",
        ["vo", "owner", "planned_jobs", "input_files", "state"],
        sqlite_where=sa.text(f"({compared})"),
        postgresql_where=sa.text(f"state IN ({listed})"),
    )
