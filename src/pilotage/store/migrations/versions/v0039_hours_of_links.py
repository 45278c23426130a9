"""What was brought over links, by the hour, for the means of a day and a week."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "link_hours",
        sa.Column("hour", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("destination", sa.String(), nullable=False),
        sa.Column("megabytes", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("hour", "source", "destination"),
    )
