"""How many rows of the catalogue each person has made, counted from now on."""

import sqlalchemy as sa
from alembic import op

revision = "0180"
down_revision = "0172"


def upgrade() -> None:
    """Make the table. Former servers do not count."""
    op.create_table(
        "registrations",
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("actor"),
    )
