"""Jobs of one priority are matched by their age, then by their number (P13)."""

import sqlalchemy as sa
from alembic import op

revision = "0101"
down_revision = "0100"


def upgrade() -> None:
    activated = sa.text("state = 'activated'")
    op.drop_index("jobs_to_match", table_name="jobs")
    line: list[str | sa.TextClause] = ["queue", "requirements", sa.text("priority DESC"), "created", "id"]
    op.create_index("jobs_to_match", "jobs", line, sqlite_where=activated, postgresql_where=activated)
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    waits = (
        "(state = 'assigned' OR state = 'activated')" if is_sqlite else "state IN ('assigned', 'activated')"
    )
    waiting = sa.text(f"choice IS NOT NULL AND {waits}")
    op.drop_index("jobs_to_borrow", table_name="jobs")
    tail: list[str | sa.TextClause] = [
        "choice",
        "queue",
        "priority",
        sa.text("created DESC"),
        sa.text("id DESC"),
    ]
    op.create_index("jobs_to_borrow", "jobs", tail, sqlite_where=waiting, postgresql_where=waiting)
