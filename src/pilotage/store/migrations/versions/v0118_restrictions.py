"""Operators drain and close sites, queues and storages; each version of the federation has a note."""

import sqlalchemy as sa
from alembic import op

revision = "0118"
down_revision = "0117"


def upgrade() -> None:
    """Add the columns; earlier versions restrict nothing."""
    for name in ("restrictions", "note"):
        op.add_column("federations", sa.Column(name, sa.String(), nullable=False, server_default=""))
