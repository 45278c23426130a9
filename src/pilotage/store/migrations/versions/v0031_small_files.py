"""Transfers of small files share slots: those that are there already take a whole one each."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Add the column."""
    op.add_column("transfers", sa.Column("size_class", sa.String(), server_default="", nullable=False))
