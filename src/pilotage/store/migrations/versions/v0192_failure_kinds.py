"""How each attempt failed, and whether the next one asks for more."""

import sqlalchemy as sa
from alembic import op

revision = "0192"
down_revision = "0191"


def upgrade() -> None:
    """Replace the culprit by the kind. Former failures name a pilot, a storage, a node or nothing."""
    op.execute("ALTER TABLE failures RENAME COLUMN blame TO kind")
    if op.get_bind().dialect.name == "postgresql":
        # It names the constraint after the column anew.
        op.alter_column("failures", "kind", nullable=True)
        op.alter_column("failures", "kind", nullable=False)
    op.add_column("failures", sa.Column("grows", sa.Boolean(), nullable=False, server_default=sa.false()))
    for culprit, kind in (("", "payload"), ("node", "disk")):
        op.execute(f"UPDATE failures SET kind = '{kind}' WHERE kind = '{culprit}'")
