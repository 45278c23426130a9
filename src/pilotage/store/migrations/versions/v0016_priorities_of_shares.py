"""Each transfer tells the base priority of its share; of those that are there already it is not known."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the column: any share that is known is better than one that is not."""
    op.add_column("transfers", sa.Column("share_priority", sa.Integer(), server_default="0", nullable=False))
