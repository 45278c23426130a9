"""PostgreSQL borrows jobs by a function, too, as it gives them (decision 30)."""

from alembic import op

from pilotage.store.migrations import functions

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Make the functions, on PostgreSQL."""
    functions.make(op.get_bind())
