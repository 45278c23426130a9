"""Scratch areas and forgotten copies that are to be removed, whichever server does it."""

import sqlalchemy as sa
from alembic import op

revision = "0181"
down_revision = "0180"


def upgrade() -> None:
    """Make the table. Former servers remove at once, and only once."""
    op.create_table(
        "removals",
        sa.Column("storage", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("file", sa.String(), nullable=False, server_default=sa.text("''")),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.Column("last", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("storage", "path"),
    )
    op.create_index("removals_due", "removals", ["due"])
