"""Tell people about their tasks: notifications, their own settings, and what a task is still to tell."""

import sqlalchemy as sa
from alembic import op

revision = "0117"
down_revision = "0116"

UNSENT = ("waiting", "sending")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=False, server_default="")


def upgrade() -> None:
    """Add the tables. Tasks of before tell nobody."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column("tasks", _text("notices"))
    to_notify = sa.text("notices != ''")
    op.create_index(
        "tasks_to_notify", "tasks", ["vo", "owner", "id"], sqlite_where=to_notify, postgresql_where=to_notify
    )
    op.create_table(
        "notifications",
        sa.Column("id", number, primary_key=True, autoincrement=False),
        sa.Column("task", number, nullable=False),
        sa.Column("topic", sa.String(), nullable=False),
        sa.Column("receiver", sa.String(), nullable=False),
        _text("owner"),
        _text("vo"),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        _text("error"),
        sa.Column("wake_at", sa.Double(), nullable=False),
        _text("server"),
        _text("history"),
    )
    op.create_index("notifications_by_task", "notifications", ["task", "id"])
    op.create_index("notifications_by_owner", "notifications", ["vo", "owner", "id"])
    op.create_index("notifications_by_state", "notifications", ["state", "since", "id"])
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    either = " OR ".join(f"state = '{state}'" for state in UNSENT)
    unsent = sa.text(f"({either})" if is_sqlite else f"state IN {UNSENT}")
    op.create_index(
        "notifications_unsent",
        "notifications",
        ["vo", "owner", "id", "state"],
        sqlite_where=unsent,
        postgresql_where=unsent,
    )
    op.create_table(
        "notification_settings",
        sa.Column("vo", sa.Text(), primary_key=True),
        sa.Column("owner", sa.Text(), primary_key=True),
        _text("notify"),
        _text("secret"),
        sa.Column("secret_made", sa.Double()),
    )
