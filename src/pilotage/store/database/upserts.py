"""Insert rows, or update existing ones, with SQL for both databases.

SQLAlchemy's own form loads the dialects of both, and a server needs one.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import Table, TextClause, text


def upsert(
    table: Table,
    key: Iterable[str],
    columns: Iterable[str],
    changes: Mapping[str, str],
    restriction: str = "",
) -> TextClause:
    """Return the statement for rows with these columns. Existing keys get the ``changes``.

    These are expressions by column, where ``excluded`` is the new row.
    """
    names = [*columns]
    changed = ", ".join(f'"{column}" = {value}' for column, value in changes.items())
    condition = f" WHERE {restriction}" if restriction else ""
    return text(
        f"INSERT INTO {table.name} ({_listed(names)}) VALUES ({', '.join(f':{name}' for name in names)})"
        f" ON CONFLICT ({_listed(key)}) DO UPDATE SET {changed}{condition}"
    )


def replaced(columns: Iterable[str]) -> dict[str, str]:
    """Return changes that give columns their new values."""
    return {column: f'excluded."{column}"' for column in columns}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
