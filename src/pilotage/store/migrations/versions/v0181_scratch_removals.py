"""Scratch areas of ended attempts that are to be removed, whichever server does it."""

import sqlalchemy as sa
from alembic import op

revision = "0181"
down_revision = "0180"


def upgrade() -> None:
    """Make the table. Former servers remove what they end themselves."""
    op.create_table(
        "scratch_removals",
        sa.Column("storage", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.Column("last", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("storage", "path"),
    )
    op.create_index("scratch_removals_due", "scratch_removals", ["due"])
