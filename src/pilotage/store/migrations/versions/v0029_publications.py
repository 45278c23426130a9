"""Outputs are registered in catalogues that others keep."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table, the column and their indexes."""
    op.create_table(
        "publications",
        sa.Column("id", ID, primary_key=True, autoincrement=False),
        sa.Column("task", ID, nullable=False),
        sa.Column("catalogue", sa.String, nullable=False),
        sa.Column("dataset", sa.String, nullable=False),
        sa.Column("file", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("error", sa.String, nullable=False, server_default=""),
        sa.Column("asked", sa.Double, nullable=False),
        sa.Column("wake_at", sa.Double, nullable=False),
        sa.Column("server", sa.String, nullable=False, server_default=""),
        sa.Column("history", sa.String, nullable=False, server_default=""),
    )
    op.create_index("publications_by_task", "publications", ["task", "state", "id"])
    op.create_index("publications_by_file", "publications", ["file"])
    op.create_index("publications_by_state", "publications", ["state", "since", "id"])
    _partial("publications_due", "publications", ["catalogue", "wake_at", "id"], "state = 'waiting'")
    _partial("publications_under_way", "publications", ["id"], "state = 'publishing'")
    op.add_column("tasks", sa.Column("output_dataset", sa.String))
    _partial("tasks_by_output_dataset", "tasks", ["output_dataset"], "output_dataset IS NOT NULL")


def _partial(name: str, table: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
