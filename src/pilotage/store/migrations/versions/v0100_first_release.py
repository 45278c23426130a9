"""The tables of the first release, 0.1.0."""

from pathlib import Path

from alembic import op

revision = "0100"
down_revision = None


def upgrade() -> None:
    """Create every table and index, by the statements of that day."""
    connection = op.get_bind()
    statements = Path(__file__).with_name(f"v0100_{connection.dialect.name}.sql").read_text()
    for statement in statements.split(";\n"):
        if statement.strip():
            connection.exec_driver_sql(statement)
