"""For how long the end of each running pilot's batch job is doubted."""

import sqlalchemy as sa
from alembic import op

revision = "0195"
down_revision = "0194"


def upgrade() -> None:
    """Add the column. Ends that were seen before are doubted no longer."""
    op.add_column("pilots", sa.Column("end_doubt", sa.Double(), server_default="0", nullable=False))
