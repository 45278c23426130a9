"""People who were closed: what they submit is refused until they get a new token."""

import sqlalchemy as sa
from alembic import op

revision = "0144"
down_revision = "0136"


def upgrade() -> None:
    """Add the table. Nobody is closed yet."""
    op.create_table(
        "closed_people",
        sa.Column("owner", sa.String(), primary_key=True),
        sa.Column("vo", sa.String(), primary_key=True),
        sa.Column("closed", sa.Double(), nullable=False),
    )
