"""PostgreSQL gives a pilot its jobs by a function: to set up one statement took longer than to run it."""

from alembic import op

from pilotage.store.migrations import functions

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Make the function, on PostgreSQL."""
    functions.make(op.get_bind())
