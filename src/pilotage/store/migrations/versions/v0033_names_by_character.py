"""Names of files by character, where PostgreSQL orders them as a language does: patterns have a beginning."""

from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """Make the index; SQLite orders by character anyway."""
    if op.get_bind().dialect.name == "postgresql":
        op.create_index("files_by_character", "files", ["name"], postgresql_ops={"name": 'COLLATE "C"'})
