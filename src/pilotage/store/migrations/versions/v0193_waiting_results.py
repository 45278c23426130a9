"""Results that pilots left in their sites' spools."""

import sqlalchemy as sa
from alembic import op

revision = "0193"
down_revision = "0192"


def upgrade() -> None:
    """Make the table. Former agents leave nothing."""
    op.create_table(
        "waiting_results",
        sa.Column("job", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("pilot", sa.BigInteger(), nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("problem", sa.String(), nullable=False, server_default=sa.text("''")),
        sa.Column("server", sa.String(), nullable=False, server_default=sa.text("''")),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("job", "attempt"),
    )
    op.create_index("waiting_results_due", "waiting_results", ["due"])
