"""The version of each pilot's agent, so that old ones are found after an upgrade."""

import sqlalchemy as sa
from alembic import op

revision = "0148"
down_revision = "0140"


def upgrade() -> None:
    """Add the column. Agents that run already have told no version."""
    op.add_column("pilots", sa.Column("agent_version", sa.String(), nullable=False, server_default=""))
