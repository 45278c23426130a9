"""People keep secrets for their payloads; the store holds only what the server's key encrypted."""

import sqlalchemy as sa
from alembic import op

revision = "0111"
down_revision = "0110"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "secrets",
        sa.Column("owner", sa.String(), primary_key=True),
        sa.Column("vo", sa.String(), primary_key=True),
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("ciphertext", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("set_at", sa.Double(), nullable=False),
    )
