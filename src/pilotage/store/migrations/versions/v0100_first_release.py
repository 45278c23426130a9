"""The tables of the first release, 0.1.0."""

import re
from pathlib import Path

from alembic import op

revision = "0100"
down_revision = None

_WORDS = ("serial", "number", "float", "bytes", "true", "false")
_POSTGRESQL = dict(
    zip(_WORDS, ("BIGSERIAL", "BIGINT", "DOUBLE PRECISION", "BYTEA", "true", "false"), strict=True)
)
_SQLITE = dict(zip(_WORDS, ("INTEGER", "INTEGER", "DOUBLE", "BLOB", "1", "0"), strict=True))


def upgrade() -> None:
    """Create every table and index, by the statements of that day."""
    connection = op.get_bind()
    for statement in statements(connection.dialect.name == "postgresql"):
        connection.exec_driver_sql(statement)


def statements(is_postgresql: bool) -> list[str]:
    """Return the statements for one of the databases."""
    found = Path(__file__).with_name("v0100_tables.sql").read_text().removesuffix(";\n").split(";\n\n")
    if is_postgresql:
        return [one.format(**_POSTGRESQL) for one in found]
    # SQLite compares names by character anyway.
    both = (one.format(**_SQLITE) for one in found if "COLLATE" not in one)
    return [re.sub(r"(\w+) IN \((.*)\)", _either, one) for one in both]


def _either(found: re.Match[str]) -> str:
    """SQLite uses a partial index only for a query of the same words."""
    return f"({' OR '.join(f'{found[1]} = {state}' for state in found[2].split(', '))})"
