"""The index of jobs at pilots has their attempts: a heartbeat reads no row of a job."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"

AT_A_PILOT = ("sent", "starting", "running")


def upgrade() -> None:
    """Make the index anew."""
    compared = " OR ".join(f"state = '{state}'" for state in AT_A_PILOT)
    listed = ", ".join(f"'{state}'" for state in AT_A_PILOT)
    op.drop_index("jobs_at_pilots", table_name="jobs")
    op.create_index(
        "jobs_at_pilots",
        "jobs",
        ["pilot", "id", "attempt"],
        sqlite_where=sa.text(f"({compared})"),
        postgresql_where=sa.text(f"state IN ({listed})"),
    )
