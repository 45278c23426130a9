"""When messages to receivers of notifications began, so that their number within an hour is known."""

import sqlalchemy as sa
from alembic import op

revision = "0132"
down_revision = "0131"


def upgrade() -> None:
    """Add the column. Messages of before do not count."""
    op.add_column("notifications", sa.Column("message_at", sa.Double()))
    has_begun = sa.text("message_at IS NOT NULL")
    op.create_index(
        "notifications_by_message",
        "notifications",
        ["message_at"],
        sqlite_where=has_begun,
        postgresql_where=has_begun,
    )
