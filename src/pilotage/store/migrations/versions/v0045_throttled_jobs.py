"""Throttled jobs are live, and are found by their state and time like the others."""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"

AT_A_PILOT = ("sent", "starting", "running")
LIVE = (
    *("throttled", "pending", "defined", "assigned", "activated"),
    *(*AT_A_PILOT, "holding", "transferring", "merging"),
)


def upgrade() -> None:
    """Make the index anew: each database has its own words for the condition."""
    states = ", ".join(f"'{state}'" for state in LIVE)
    either = " OR ".join(f"state = '{state}'" for state in LIVE)
    op.drop_index("jobs_by_state", table_name="jobs")
    op.create_index(
        "jobs_by_state",
        "jobs",
        ["state", "since", "id"],
        sqlite_where=sa.text(f"({either})"),
        postgresql_where=sa.text(f"state IN ({states})"),
    )
