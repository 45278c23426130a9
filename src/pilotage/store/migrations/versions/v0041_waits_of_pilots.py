"""Why batch systems do not start pilots."""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    """Add the column."""
    op.add_column("pilots", sa.Column("waits", sa.String(), server_default="", nullable=False))
