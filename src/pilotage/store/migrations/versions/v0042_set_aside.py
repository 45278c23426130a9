"""What steps have set aside because their policies fail at it is written down."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "set_aside",
        sa.Column("step", sa.String(), primary_key=True),
        sa.Column("subject", sa.String(), primary_key=True),
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column("among", sa.Integer(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("retry_at", sa.Double(), nullable=False),
    )
