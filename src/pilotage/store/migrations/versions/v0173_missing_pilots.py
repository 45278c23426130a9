"""Since when a batch system lacks each waiting pilot, so that a restarted server still knows."""

import sqlalchemy as sa
from alembic import op

revision = "0173"
down_revision = "0181"


def upgrade() -> None:
    """Add the column. Former servers kept the time in memory."""
    op.add_column("pilots", sa.Column("missing_since", sa.Double()))
