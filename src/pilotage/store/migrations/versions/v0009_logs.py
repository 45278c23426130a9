"""Logs of attempts and pilots, and who reads them."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make both tables."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "logs",
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("record", number, autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("stream", sa.String(), nullable=False),
        sa.Column("vo", sa.String(), server_default="", nullable=False),
        sa.Column("owner", sa.String(), server_default="", nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.Integer(), nullable=False),
        sa.Column("stored", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "record", "attempt", "stream"),
    )
    op.create_index("logs_by_time", "logs", ["time"])
    op.create_index("logs_by_owner", "logs", ["vo", "owner", "time", "stored"])
    op.create_table(
        "log_readers",
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("record", number, autoincrement=False, nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "record"),
    )
