"""A pilot's first token is exchanged once: by whom is remembered."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column; pilots that are there already keep the tokens that they have."""
    op.add_column("tokens", sa.Column("nonce", sa.String()))
