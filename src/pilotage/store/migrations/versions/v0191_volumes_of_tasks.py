"""How many bytes everybody's tasks take."""

import sqlalchemy as sa
from alembic import op

revision = "0191"
down_revision = "0190"


def upgrade() -> None:
    """Make the table, and count what is there. Former servers do not count."""
    op.create_table(
        "task_volumes",
        sa.Column("vo", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("stored", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("vo", "owner"),
    )
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    size = "octet_length(spec)" if is_postgresql else "length(CAST(spec AS BLOB))"
    op.execute(f"INSERT INTO task_volumes SELECT vo, owner, sum({size}) FROM tasks GROUP BY vo, owner")
