"""Transfers are prepared and finished in queues of their own (D8): until they are, no second one is made."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Let the index that keeps a file from being moved twice know the new states."""
    condition = sa.text("state IN ('queued', 'preparing', 'prepared', 'delivering', 'delivered')")
    op.drop_index("transfers_once", table_name="transfers")
    op.create_index(
        "transfers_once",
        "transfers",
        ["file", "destination"],
        unique=True,
        sqlite_where=condition,
        postgresql_where=condition,
    )
