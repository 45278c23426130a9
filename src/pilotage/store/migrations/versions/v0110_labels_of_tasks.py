"""Tasks have labels, by which their owner finds them."""

import sqlalchemy as sa
from alembic import op

revision = "0110"
down_revision = "0109"


def upgrade() -> None:
    """Add the labels; earlier tasks have none."""
    op.add_column("tasks", sa.Column("labels", sa.String(), nullable=False, server_default=""))
