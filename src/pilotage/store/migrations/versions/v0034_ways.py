"""The way that a file came by is kept with its transfer; of those that are over it is not known."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    """Add the column."""
    op.add_column("transfers", sa.Column("way", sa.String(), server_default="", nullable=False))
