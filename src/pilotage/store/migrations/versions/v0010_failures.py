"""Failed attempts that the guards go by, and the machine that each pilot runs on."""

import sqlalchemy as sa
from alembic import op

from pilotage.store.database.columns import Id

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Make the table, and add the column; of pilots that are there already it is not known."""
    op.add_column("pilots", sa.Column("node", sa.String(), server_default="", nullable=False))
    op.create_table(
        "failures",
        sa.Column("job", Id, autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("task", Id, nullable=False),
        sa.Column("owner", sa.String(), server_default="", nullable=False),
        sa.Column("vo", sa.String(), server_default="", nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("pilot", Id, nullable=False),
        sa.Column("pilots", sa.Integer(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("lasted", sa.Double(), nullable=False),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("ending", sa.String(), server_default="", nullable=False),
        sa.Column("against", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("job", "attempt"),
    )
    op.create_index("failures_by_place", "failures", ["queue", "vo", "owner", "node", "time"])
    op.create_index("failures_by_task", "failures", ["task"])
