"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make all tables."""
    _counters()
    _decisions()
    _events()
    _federations()
    _files()
    _pilots()
    _queue_reports()
    _tasks()
    _tokens()
    _transfers()
    _jobs()
    _replicas()
    _job_inputs()


def _counters() -> None:
    op.create_table(
        "counters",
        sa.Column("counter", sa.String(), nullable=False),
        sa.Column("first", sa.String(), nullable=False),
        sa.Column("second", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("counter", "first", "second", "state"),
    )


def _decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("task", ID, nullable=False),
        sa.Column("step", sa.String(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("actor", sa.String(), server_default="", nullable=False),
        sa.Column("moved", sa.Boolean(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("decisions_by_task", "decisions", ["task", "id"])
    op.create_index(
        "decisions_unmoved",
        "decisions",
        ["task"],
        sqlite_where=sa.text("moved IS 0"),
        postgresql_where=sa.text("moved IS false"),
    )


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("record", ID, nullable=False),
        sa.Column("task", ID),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("source", sa.String()),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("cause", sa.String(), server_default="", nullable=False),
        sa.Column("actor", sa.String(), server_default="", nullable=False),
        sa.Column("decision", ID),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("events_by_record", "events", ["kind", "record"])


def _federations() -> None:
    op.create_table(
        "federations",
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("actor", sa.String(), server_default="", nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("version"),
    )


def _files() -> None:
    op.create_table(
        "files",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("checksum", sa.String(), nullable=False),
        sa.Column("task", ID),
        sa.Column("job", ID),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_index(
        "files_by_job",
        "files",
        ["job"],
        sqlite_where=sa.text("job IS NOT NULL"),
        postgresql_where=sa.text("job IS NOT NULL"),
    )
    op.create_index(
        "files_by_task",
        "files",
        ["task", "name"],
        sqlite_where=sa.text("task IS NOT NULL"),
        postgresql_where=sa.text("task IS NOT NULL"),
    )


def _pilots() -> None:
    op.create_table(
        "pilots",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("requirements", sa.String(), server_default="", nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), server_default="", nullable=False),
        sa.Column("vo", sa.String(), server_default="", nullable=False),
        sa.Column("group", sa.String(), server_default="", nullable=False),
        sa.Column("vo_role", sa.String(), server_default="", nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="1", nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("error", sa.String(), server_default="", nullable=False),
        sa.Column("cores", sa.Integer(), nullable=False),
        sa.Column("memory", sa.Double(), nullable=False),
        sa.Column("walltime", sa.Double(), nullable=False),
        sa.Column("reference", sa.String(), server_default="", nullable=False),
        sa.Column("heartbeat", sa.Double()),
        sa.Column("matched", sa.Integer(), nullable=False),
        sa.Column("ended", sa.Double()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("pilots_by_queue", "pilots", ["queue", "id"])
    op.create_index("pilots_by_state", "pilots", ["state", "since", "id"])


def _queue_reports() -> None:
    op.create_table(
        "queue_reports",
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("last_pilot", sa.Double()),
        sa.Column("last_start", sa.Double()),
        sa.PrimaryKeyConstraint("queue"),
    )


def _tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("name", sa.String(), server_default="", nullable=False),
        sa.Column("share", sa.String(), server_default="", nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), server_default="", nullable=False),
        sa.Column("vo", sa.String(), server_default="", nullable=False),
        sa.Column("group", sa.String(), server_default="", nullable=False),
        sa.Column("vo_role", sa.String(), server_default="", nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="1", nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("error", sa.String(), server_default="", nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("measured", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("tasks_by_owner", "tasks", ["vo", "owner", "id"])
    op.create_index("tasks_by_state", "tasks", ["state", "id"])


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), server_default="", nullable=False),
        sa.Column("vo", sa.String(), server_default="", nullable=False),
        sa.Column("group", sa.String(), server_default="", nullable=False),
        sa.Column("vo_role", sa.String(), server_default="", nullable=False),
        sa.Column("pilot", ID),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double()),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_index("tokens_by_expiry", "tokens", ["expires"])
    op.create_index("tokens_by_pilot", "tokens", ["pilot"])


def _transfers() -> None:
    op.create_table(
        "transfers",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("file", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("source_path", sa.String(), server_default="", nullable=False),
        sa.Column("destination", sa.String(), nullable=False),
        sa.Column("direction", sa.String(), nullable=False),
        sa.Column("share", sa.String(), server_default="", nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="1", nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("error", sa.String(), server_default="", nullable=False),
        sa.Column("emergency", sa.Boolean(), nullable=False),
        sa.Column("wake_at", sa.Double()),
        sa.Column("heartbeat", sa.Double()),
        sa.Column("started", sa.Double()),
        sa.Column("ended", sa.Double()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("transfers_by_file", "transfers", ["file", "state"])
    op.create_index("transfers_by_state", "transfers", ["state", "since", "id"])
    op.create_index(
        "transfers_oldest",
        "transfers",
        ["share", "direction", "since", "id"],
        sqlite_where=sa.text("state = 'queued'"),
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index(
        "transfers_once",
        "transfers",
        ["file", "destination"],
        unique=True,
        sqlite_where=sa.text("state IN ('queued', 'delivering')"),
        postgresql_where=sa.text("state IN ('queued', 'delivering')"),
    )
    op.create_index(
        "transfers_to_start",
        "transfers",
        ["share", "direction", sa.literal_column("priority DESC"), "id"],
        sqlite_where=sa.text("state = 'queued'"),
        postgresql_where=sa.text("state = 'queued'"),
    )


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("task", ID, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("share", sa.String(), server_default="", nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("requirements", sa.String(), server_default="", nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="1", nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("error", sa.String(), server_default="", nullable=False),
        sa.Column("queue", sa.String(), server_default="", nullable=False),
        sa.Column("pilot", ID),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("input_count", sa.Integer(), nullable=False),
        sa.Column("wake_at", sa.Double()),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("cpu_seconds", sa.Double()),
        sa.Column("wall_seconds", sa.Double()),
        sa.Column("max_rss", sa.Double()),
        sa.Column("max_workdir", sa.Double()),
        sa.Column("started", sa.Double()),
        sa.Column("ended", sa.Double()),
        sa.ForeignKeyConstraint(
            ["task"],
            ["tasks.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "jobs_at_pilots",
        "jobs",
        ["pilot", "id"],
        sqlite_where=sa.text("state IN ('sent', 'starting', 'running')"),
        postgresql_where=sa.text("state IN ('sent', 'starting', 'running')"),
    )
    op.create_index("jobs_by_state", "jobs", ["state", "since", "id"])
    op.create_index("jobs_by_task", "jobs", ["task", "state", "id"])
    op.create_index(
        "jobs_to_broker",
        "jobs",
        ["state", "task", "id"],
        sqlite_where=sa.text("state = 'defined'"),
        postgresql_where=sa.text("state = 'defined'"),
    )
    op.create_index(
        "jobs_to_lift",
        "jobs",
        ["state", "task", "id"],
        sqlite_where=sa.text("state = 'pending'"),
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "jobs_to_match",
        "jobs",
        ["queue", "requirements", sa.literal_column("priority DESC"), "id"],
        sqlite_where=sa.text("state = 'activated'"),
        postgresql_where=sa.text("state = 'activated'"),
    )
    op.create_index(
        "jobs_to_wake",
        "jobs",
        ["state", "wake_at", "id"],
        sqlite_where=sa.text("state = 'pending'"),
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "jobs_urgent",
        "jobs",
        ["state", "since", "id"],
        sqlite_where=sa.text("priority >= 800"),
        postgresql_where=sa.text("priority >= 800"),
    )


def _replicas() -> None:
    op.create_table(
        "replicas",
        sa.Column("file", sa.String(), nullable=False),
        sa.Column("storage", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["file"],
            ["files.name"],
        ),
        sa.PrimaryKeyConstraint("file", "storage"),
    )


def _job_inputs() -> None:
    op.create_table(
        "job_inputs",
        sa.Column("job", ID, autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("file", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job"],
            ["jobs.id"],
        ),
        sa.PrimaryKeyConstraint("job", "position"),
    )
    op.create_index("job_inputs_by_file", "job_inputs", ["file", "job"])
