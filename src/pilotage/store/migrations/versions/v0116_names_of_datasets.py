"""The name of a dataset of outputs is held by one live task at a time."""

import sqlalchemy as sa
from alembic import op

from pilotage.store.migrations.versions.v0115_chains_of_tasks import BEFORE, live

revision = "0116"
down_revision = "0115"


def upgrade() -> None:
    """Let the index refuse a second live task. Until now the commit alone refused any second task."""
    held = sa.text(f"output_dataset IS NOT NULL AND {live(('waiting', *BEFORE))}")
    op.drop_index("tasks_by_output_dataset", table_name="tasks")
    op.create_index(
        "tasks_by_output_dataset",
        "tasks",
        ["output_dataset"],
        unique=True,
        sqlite_where=held,
        postgresql_where=held,
    )
