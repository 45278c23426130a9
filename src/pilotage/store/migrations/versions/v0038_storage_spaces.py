"""Free space that storages told when they were asked."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "storage_spaces",
        sa.Column("storage", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("asked", sa.Double(), nullable=False),
        sa.Column("told", sa.Double(), nullable=True),
        sa.Column("free", sa.Double(), nullable=True),
        sa.Column("total", sa.Double(), nullable=True),
        sa.Column("problem", sa.String(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("storage"),
    )
