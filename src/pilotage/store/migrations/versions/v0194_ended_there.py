"""Since when a batch system says that the job of each running pilot has ended."""

import sqlalchemy as sa
from alembic import op

revision = "0194"
down_revision = "0193"


def upgrade() -> None:
    """Add the column. Nobody knows it of earlier pilots."""
    op.add_column("pilots", sa.Column("ended_there_since", sa.Double()))
