"""Pilots tell their site, the kind of their computing element, server and submit pool; iterations."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add them; pilots that are there already count for no site, until they have ended."""
    for name in ("site", "element", "broker", "submit_pool"):
        op.add_column("pilots", sa.Column(name, sa.String(), server_default="", nullable=False))
    op.execute(
        "INSERT INTO counters (counter, first, second, state, count) "
        "SELECT 'pilots_by_site', '', '', state, count(*) FROM pilots GROUP BY state"
    )
    op.create_table(
        "iterations",
        sa.Column("step", sa.String(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("step"),
    )
