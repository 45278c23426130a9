"""Live transfers are counted by link and direction (B7): count those that are there anew."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Replace the counts by link."""
    op.execute("DELETE FROM counters WHERE counter = 'transfers_by_link'")
    op.execute(
        "INSERT INTO counters (counter, first, second, state, count) "
        "SELECT 'transfers_by_link', source, destination || ' ' || direction, state, count(*) "
        "FROM transfers GROUP BY source, destination, direction, state"
    )
