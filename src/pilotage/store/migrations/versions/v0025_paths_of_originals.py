"""Copies are told by their folder: originals that other catalogues know may have paths of their own."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Make the index anew."""
    condition = sa.text("substr(path, 1, 8) = '.copies/'")
    op.drop_index("replicas_copies", table_name="replicas")
    op.create_index(
        "replicas_copies",
        "replicas",
        ["since", "file"],
        sqlite_where=condition,
        postgresql_where=condition,
    )
