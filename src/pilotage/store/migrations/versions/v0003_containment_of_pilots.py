"""The way in which each pilot contains payloads."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column; of pilots that are there already it is not known."""
    op.add_column("pilots", sa.Column("containment", sa.String(), server_default="", nullable=False))
