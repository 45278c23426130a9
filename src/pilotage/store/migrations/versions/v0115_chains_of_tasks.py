"""Tasks come after other tasks, and are submitted together as a workflow."""

import sqlalchemy as sa
from alembic import op

revision = "0115"
down_revision = "0114"

BEFORE = ("registered", "scouting", "splitting", "running", "merging")
_LIVE = ["vo", "owner", "planned_jobs", "input_files", "state"]


def live(states: tuple[str, ...]) -> str:
    """Return the condition that a task is in one of these states, as this database writes it."""
    if op.get_bind().dialect.name == "sqlite":
        return "(" + " OR ".join(f"state = '{state}'" for state in states) + ")"
    return "state IN (" + ", ".join(f"'{state}'" for state in states) + ")"


def upgrade() -> None:
    """Make the tables. Tasks that are there come after none, and belong to no workflow."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    texts = [
        sa.Column(name, sa.String(), nullable=False, server_default="")
        for name in ("name", "owner", "vo", "group", "vo_role")
    ]
    op.create_table(
        "workflows",
        sa.Column("id", number, primary_key=True, autoincrement=False),
        *texts,
        sa.Column("created", sa.Double(), nullable=False),
    )
    op.create_index("workflows_by_owner", "workflows", ["vo", "owner", "id"])
    op.create_table(
        "predecessors",
        sa.Column("task", number, primary_key=True),
        sa.Column("reference", sa.String(), primary_key=True),
        sa.Column("predecessor", number, nullable=False),
    )
    op.create_index("predecessors_by_predecessor", "predecessors", ["predecessor"])
    op.add_column("tasks", sa.Column("workflow", number, nullable=True))
    op.add_column("tasks", sa.Column("on_end", sa.Boolean(), nullable=False, server_default=sa.false()))
    given = sa.text("workflow IS NOT NULL")
    op.create_index(
        "tasks_by_workflow", "tasks", ["workflow", "id"], sqlite_where=given, postgresql_where=given
    )
    now = sa.text(live(("waiting", *BEFORE)))
    op.drop_index("tasks_live", table_name="tasks")
    op.create_index("tasks_live", "tasks", _LIVE, sqlite_where=now, postgresql_where=now)
