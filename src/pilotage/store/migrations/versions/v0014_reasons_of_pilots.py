"""Why each pilot was made."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the column; of pilots that are there already it is not known."""
    op.add_column("pilots", sa.Column("reason", sa.String(), server_default="", nullable=False))
