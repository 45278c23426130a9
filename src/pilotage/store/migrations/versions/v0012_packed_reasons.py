"""Reasons are stored in columns, with what the choices of a commit share stored once.

Reasons of the older form are dropped. Histories still name their choices, whose numbers are not used again.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Make the tables of decisions anew."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.drop_table("decisions")
    op.create_table(
        "decisions",
        sa.Column("id", number, autoincrement=False, nullable=False),
        sa.Column("task", number, nullable=False),
        sa.Column("step", sa.String(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("actor", sa.String(), server_default="", nullable=False),
        sa.Column("moved", sa.Boolean(), nullable=False),
        sa.Column("facts", number, nullable=False),
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
    op.create_table(
        "decision_facts",
        sa.Column("id", number, autoincrement=False, nullable=False),
        sa.Column("last", number, nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
