"""What has waited longest is found for each priority, whatever the number of transfers that wait."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    """Make the index in place of the one without priorities."""
    queued = sa.text("state = 'queued'")
    op.drop_index("transfers_oldest", "transfers")
    op.create_index(
        "transfers_longest_queued",
        "transfers",
        ["share", "direction", "priority", "since", "id"],
        sqlite_where=queued,
        postgresql_where=queued,
    )
