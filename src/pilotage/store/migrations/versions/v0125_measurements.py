"""Measurements of all processes are added up in the store, where any server reads them."""

import sqlalchemy as sa
from alembic import op

revision = "0125"
down_revision = "0119"


def upgrade() -> None:
    """Add the table. It begins empty."""
    op.create_table(
        "measurements",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("labels", sa.String(), primary_key=True),
        sa.Column("part", sa.String(), primary_key=True),
        sa.Column("value", sa.Double(), nullable=False),
    )
