"""A failure counts for its task, and says whether the place works for other tasks (F2)."""

import sqlalchemy as sa
from alembic import op

from pilotage.store.migrations import functions

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    """Add the column; matches pass over tasks that are kept from a pilot."""
    op.add_column("failures", sa.Column("others", sa.String(), nullable=False, server_default="queue"))
    functions.make(op.get_bind())
