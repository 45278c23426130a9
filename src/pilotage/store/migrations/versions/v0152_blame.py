"""What certainly failed an attempt: its node, its pilot or a storage."""

import sqlalchemy as sa
from alembic import op

revision = "0152"
down_revision = "0144"


def upgrade() -> None:
    """Add the column. Of failures so far nobody knows."""
    op.add_column("failures", sa.Column("blame", sa.String(), nullable=False, server_default=""))
