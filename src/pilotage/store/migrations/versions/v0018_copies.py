"""Copies that Pilotage made are found by when they came."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Make the index."""
    condition = sa.text("path != ''")
    op.create_index(
        "replicas_copies",
        "replicas",
        ["since", "file"],
        sqlite_where=condition,
        postgresql_where=condition,
    )
