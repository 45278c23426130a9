"""What the machines of pilots lack of that for which they were sent there."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Add the column."""
    op.add_column("pilots", sa.Column("lacks", sa.String(), server_default="", nullable=False))
