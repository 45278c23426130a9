"""PostgreSQL's function for jobs of other queues compares what people changed of them."""

revision = "0119"
down_revision = "0118"


def upgrade() -> None:
    """Change no table: the functions are made after the last migration."""
