"""Files from outside know whose word their description is, until an operator or the bytes confirm it."""

import sqlalchemy as sa
from alembic import op

revision = "0104"
down_revision = "0103"


def upgrade() -> None:
    """Add the author; nobody is known to be that of earlier descriptions."""
    op.add_column("files", sa.Column("author", sa.String(), nullable=False, server_default=""))
