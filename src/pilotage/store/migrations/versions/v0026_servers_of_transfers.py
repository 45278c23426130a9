"""The process that delivers each transfer: what it had under way is put back once it has ended."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """Add the column."""
    op.add_column("transfers", sa.Column("server", sa.String(), server_default="", nullable=False))
