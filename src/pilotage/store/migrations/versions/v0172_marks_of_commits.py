"""Marks of the last commits, so that a commit without answer is done once."""

import sqlalchemy as sa
from alembic import op

revision = "0172"
down_revision = "0171"


def upgrade() -> None:
    """Make the table. Former servers do not know it."""
    op.create_table(
        "commit_marks",
        sa.Column("writer", sa.String(), nullable=False),
        sa.Column("mark", sa.String(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("writer"),
    )
