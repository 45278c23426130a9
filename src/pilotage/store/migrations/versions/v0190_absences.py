"""Times in which no server was there, which time-outs do not count."""

import sqlalchemy as sa
from alembic import op

revision = "0190"
down_revision = "0173"


def upgrade() -> None:
    """Make the table. Nobody knows earlier absences."""
    op.create_table(
        "absences",
        sa.Column("began", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("began"),
    )
