"""Tasks that are cancelled unless their submitter renews a lease."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Add the column and its index."""
    op.add_column("tasks", sa.Column("lease_end", sa.Double()))
    condition = sa.text("lease_end IS NOT NULL")
    op.create_index(
        "tasks_by_lease",
        "tasks",
        ["lease_end"],
        sqlite_where=condition,
        postgresql_where=condition,
    )
