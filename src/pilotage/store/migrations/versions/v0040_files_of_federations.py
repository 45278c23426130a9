"""The files that versions of the federation were loaded from."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("federations", sa.Column("file", sa.String(), server_default="", nullable=False))
    op.add_column("federations", sa.Column("digest", sa.String(), server_default="", nullable=False))
