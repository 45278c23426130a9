"""Jobs may be taken by pilots of other queues: candidates by choice, what was borrowed, mean runs."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the columns, tables and indexes."""
    op.add_column("jobs", sa.Column("choice", ID))
    op.add_column("queue_reports", sa.Column("mean_run", sa.Double))
    op.create_table(
        "candidates",
        sa.Column("choice", ID, primary_key=True, autoincrement=False),
        sa.Column("queue", sa.String, primary_key=True),
        sa.Column("binding", sa.String, nullable=False),
        sa.Column("placed", sa.Boolean, nullable=False),
    )
    op.create_table(
        "borrowings",
        sa.Column("job", ID, primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("site", sa.String, nullable=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("reads", sa.Boolean, nullable=False),
        sa.Column("document", sa.String, nullable=False),
    )
    op.create_index("candidates_by_queue", "candidates", ["queue", "choice"])
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    placed = sa.text("placed IS 1" if is_sqlite else "placed IS true")
    waits = (
        "(state = 'assigned' OR state = 'activated')" if is_sqlite else "state IN ('assigned', 'activated')"
    )
    reading = sa.text("reads IS 1" if is_sqlite else "reads IS true")
    op.create_index(
        "borrowings_by_site",
        "borrowings",
        ["site", "time"],
        sqlite_where=reading,
        postgresql_where=reading,
    )
    waiting = sa.text(f"choice IS NOT NULL AND {waits}")
    line: list[str | sa.TextClause] = ["choice", "queue", "priority", sa.text("id DESC")]
    op.create_index("jobs_to_borrow", "jobs", line, sqlite_where=waiting, postgresql_where=waiting)
    places = ["choice", "queue"]
    op.create_index("candidates_placed", "candidates", places, sqlite_where=placed, postgresql_where=placed)
