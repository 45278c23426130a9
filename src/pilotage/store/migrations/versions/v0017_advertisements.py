"""Advertisements of sites."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the table; sites advertise anew within minutes."""
    op.create_table(
        "advertisements",
        sa.Column("site", sa.String(), primary_key=True),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("attributes", sa.String(), nullable=False),
        sa.Column("requirements", sa.String(), server_default="", nullable=False),
        sa.Column("pilots", sa.Integer(), nullable=False),
        sa.Column("submitting", sa.Integer(), nullable=False),
    )
