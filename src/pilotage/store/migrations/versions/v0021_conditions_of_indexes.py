"""SQLite compares states one by one in the conditions of its indexes: lists cost half of an update."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

AT_A_PILOT = ("sent", "starting", "running")
UNFINISHED = ("queued", "preparing", "prepared", "delivering", "delivered")
LIVE = ("pending", "defined", "assigned", "activated", *AT_A_PILOT, "holding", "transferring", "merging")


def upgrade() -> None:
    """Make the indexes anew on SQLite; PostgreSQL's stay."""
    if op.get_bind().dialect.name == "postgresql":
        return
    _make_anew("jobs_by_state", "jobs", ["state", "since", "id"], LIVE)
    _make_anew("jobs_at_pilots", "jobs", ["pilot", "id"], AT_A_PILOT)
    _make_anew("transfers_once", "transfers", ["file", "destination"], UNFINISHED, unique=True)


def _make_anew(
    name: str, table: str, columns: list[str], states: tuple[str, ...], unique: bool = False
) -> None:
    condition = " OR ".join(f"state = '{state}'" for state in states)
    op.drop_index(name, table_name=table)
    op.create_index(name, table, columns, unique=unique, sqlite_where=sa.text(f"({condition})"))
