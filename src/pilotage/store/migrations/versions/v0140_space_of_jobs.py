"""Jobs take less space: no index of logs by time alone, and on SQLite no second copy of some keys."""

import sqlalchemy as sa
from alembic import op

revision = "0140"
down_revision = "0132"

_BY_KEY = ("replicas", "job_inputs", "counters")
"""Tables that SQLite kept by a number of its own, beside an index that repeated most of each row."""


def upgrade() -> None:
    """Drop the index, and let SQLite keep the rows of some tables in their primary key."""
    op.drop_index("logs_by_time", table_name="logs")
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        for table in _BY_KEY:
            _keep_by_key(connection, table)


def _keep_by_key(connection: sa.Connection, table: str) -> None:
    """Make a table that no other refers to again without numbers of rows, with its indexes."""
    known = connection.exec_driver_sql(
        "SELECT type, sql FROM sqlite_master WHERE tbl_name = ? AND sql IS NOT NULL", (table,)
    ).all()
    (made,) = (sql for kind, sql in known if kind == "table")
    connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO former_{table}")
    for kind, sql in known:
        if kind == "index":
            connection.exec_driver_sql(f"DROP INDEX {sql.split(' ON ')[0].split()[-1]}")
    connection.exec_driver_sql(f"{made} WITHOUT ROWID")
    connection.exec_driver_sql(f"INSERT INTO {table} SELECT * FROM former_{table}")
    connection.exec_driver_sql(f"DROP TABLE former_{table}")
    for kind, sql in known:
        if kind == "index":
            connection.exec_driver_sql(sql)
