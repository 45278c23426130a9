"""The last simulation of each person, which any server shows."""

import sqlalchemy as sa
from alembic import op

revision = "0137"
down_revision = "0152"


def upgrade() -> None:
    """Add the table. Simulations of before are forgotten."""
    op.create_table(
        "simulations",
        sa.Column("person", sa.String(), primary_key=True),
        sa.Column("begun", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double()),
        sa.Column("document", sa.Text(), nullable=False),
    )
