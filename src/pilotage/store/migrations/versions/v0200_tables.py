"""The tables of 0.1.0.

Until that version is tagged, this migration creates the tables as declared, so a changed table needs no other
migration. The tag freezes the statements here; each later change has a migration.
"""

from alembic import op

from pilotage.store.records import with_all_indexes

revision = "0200"
down_revision = None


def upgrade() -> None:
    """Create every table and index."""
    with_all_indexes().create_all(op.get_bind(), checkfirst=False)
