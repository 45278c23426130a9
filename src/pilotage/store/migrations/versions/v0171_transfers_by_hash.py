"""Transfers are found by a hash of their file on PostgreSQL, and by the file alone on SQLite."""

from alembic import op

revision = "0171"
down_revision = "0170"


def upgrade() -> None:
    """Make the index again: former servers use it as well."""
    op.drop_index("transfers_by_file", table_name="transfers")
    op.create_index("transfers_by_file", "transfers", ["file"], postgresql_using="hash")
