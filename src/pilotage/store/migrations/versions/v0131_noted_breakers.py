"""Circuit breakers that events have told of."""

import sqlalchemy as sa
from alembic import op

revision = "0131"
down_revision = "0128"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=False, server_default="")


def upgrade() -> None:
    """Add the table. Tell once of breakers that are open already."""
    op.create_table(
        "noted_breakers",
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(), nullable=False),
        *map(_text, ("place", "part", "vo", "owner")),
        sa.Column("task", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
    )
