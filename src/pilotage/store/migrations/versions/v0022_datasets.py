"""Datasets with versions, and the versions that tasks read."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Make the tables, and the column of tasks."""
    op.create_table(
        "dataset_versions",
        sa.Column("dataset", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("author", sa.String(), server_default="", nullable=False),
        sa.Column("files", sa.Integer(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("dataset", "version"),
    )
    op.create_table(
        "dataset_files",
        sa.Column("dataset", sa.String(), nullable=False),
        sa.Column("file", sa.String(), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("last", sa.Integer()),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("checksum", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("dataset", "file", "first"),
    )
    op.add_column("tasks", sa.Column("datasets", sa.String(), server_default="", nullable=False))
