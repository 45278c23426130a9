"""A made-up next release: today's code with one migration more, and another function in PostgreSQL."""

import shutil
from pathlib import Path

import pilotage

REVISION = "9001"
COMMIT = "0123456789ab"

_MIGRATION = f'''"""A table that a later release adds."""

import sqlalchemy as sa
from alembic import op

revision = "{REVISION}"
down_revision = "0200"


def upgrade() -> None:
    """Add the table."""
    op.create_table("of_the_next_release", sa.Column("id", sa.BigInteger(), primary_key=True))
'''
_COMMENT = "-- This also locks the pilot"


def add_migration(migrations: Path) -> None:
    """Add the migration to a copy of the folder of migrations."""
    (migrations / "versions" / f"v{REVISION}_next_release.py").write_text(_MIGRATION)


def write_next_release(folder: Path) -> Path:
    """Write the source of the next release; returns the folder for ``PYTHONPATH``."""
    package = folder / "pilotage"
    shutil.copytree(Path(pilotage.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    turn_into_next_release(package)
    return folder


def turn_into_next_release(package: Path) -> None:
    """Turn a copy of the package into the next release."""
    (package / "commit.txt").write_text(f"{COMMIT}\n")
    add_migration(package / "store" / "migrations")
    functions = package / "store" / "migrations" / "functions.py"
    definition = functions.read_text()
    assert _COMMENT in definition
    functions.write_text(definition.replace(_COMMENT, f"{_COMMENT} of the next release"))
