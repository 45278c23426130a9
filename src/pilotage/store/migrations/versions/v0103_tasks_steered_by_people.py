"""People hold tasks, end them with what they have, and retry them (retry, hold, finish)."""

import sqlalchemy as sa
from alembic import op

revision = "0103"
down_revision = "0102"

LIVE = (
    *("throttled", "pending", "defined", "held", "assigned", "activated", "sent", "starting", "running"),
    *("holding", "transferring", "merging"),
)


def upgrade() -> None:
    """Add the columns, and the state ``held`` to the index of live jobs."""
    op.add_column("tasks", sa.Column("attempts_before", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("tasks", sa.Column("held", sa.String(), nullable=False, server_default=""))
    op.add_column("tasks", sa.Column("finishing", sa.Boolean(), nullable=False, server_default=sa.false()))
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    live = " OR ".join(f"state = '{state}'" for state in LIVE) if is_sqlite else f"state IN {LIVE}"
    where = sa.text(f"({live})" if is_sqlite else live)
    op.drop_index("jobs_by_state", table_name="jobs")
    op.create_index(
        "jobs_by_state", "jobs", ["state", "since", "id"], sqlite_where=where, postgresql_where=where
    )
