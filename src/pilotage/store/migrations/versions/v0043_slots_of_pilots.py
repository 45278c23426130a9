"""Pilots are counted by their slots at each site, and borrowing claims no advertisement (decision 42)."""

import sqlalchemy as sa
from alembic import op

from pilotage.store.migrations import functions

revision = "0043"
down_revision = "0042"


def upgrade() -> None:
    """Add the slots; pilots of before count one each until they end."""
    op.add_column("pilots", sa.Column("slots", sa.Integer(), server_default="1", nullable=False))
    op.execute("UPDATE counters SET second = '1' WHERE counter = 'pilots_by_site'")
    functions.make(op.get_bind())
