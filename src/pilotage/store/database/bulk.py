"""Write many rows with one statement: arrays that PostgreSQL unnests, ``executemany`` on SQLite."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Table

from pilotage.store.database.dialects import AnyConnection, Dialect, dialect_of

Row = Sequence[Any]

ALIKE = 8
"""Least number of records with equal new values that get a statement together."""


def insert(
    connection: AnyConnection, table: Table, columns: Sequence[str], rows: Sequence[Row], once: bool = False
) -> None:
    """Insert rows, each with values for ``columns`` in that order. With ``once``, skip existing rows."""
    if rows:
        dialect = dialect_of(connection)
        statement = _insert(dialect, table, tuple(columns))
        dialect.run(connection, statement + (" ON CONFLICT DO NOTHING" if once else ""), rows)


def update(
    connection: AnyConnection, table: Table, columns: Sequence[str], rows: Sequence[Row], appended: str = ""
) -> None:
    """Set ``columns`` of records. Each row has their values, then the text for ``appended``, then the id."""
    ids_by_values: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in rows:
        ids_by_values[tuple(row[:-1])].append(row[-1])
    dialect = dialect_of(connection)
    # Thousands of jobs often get the same values. Send these once. SQLite's driver also lets other threads
    # run before each row.
    for values, ids in ids_by_values.items():
        if len(ids) >= ALIKE:
            statement = _update_alike(dialect, table, tuple(columns), appended)
            dialect.run_once(connection, statement, (*map(_plain, values), dialect.values(ids)))
    if single_rows := [
        (*values, id_) for values, ids in ids_by_values.items() if len(ids) < ALIKE for id_ in ids
    ]:
        dialect.run(connection, _update(dialect, table, tuple(columns), appended), single_rows)


def add(
    connection: AnyConnection, table: Table, keys: Sequence[str], count: str, rows: Sequence[Row]
) -> None:
    """Add to counts. Each row has the key and then the difference. Delete counts that become 0.

    Write rows in order of key, so that concurrent calls do not deadlock.
    """
    if not rows:
        return
    ordered = sorted(rows, key=lambda row: tuple(row[:-1]))
    # Only reduced counts can have reached 0.
    fallen = [row[:-1] for row in ordered if row[-1] < 0]
    dialect = dialect_of(connection)
    upsert, delete = _add(dialect, table, tuple(keys), count)
    dialect.run(connection, upsert, ordered)
    if fallen:
        dialect.run(connection, delete, fallen)


def _plain(value: Any) -> Any:
    """Return the value in a form that drivers accept: the text of a state."""
    return str(value) if isinstance(value, str) else value


@cache
def _insert(dialect: Dialect, table: Table, columns: tuple[str, ...]) -> str:
    return dialect.insert(table, columns)


@cache
def _update(dialect: Dialect, table: Table, columns: tuple[str, ...], appended: str) -> str:
    return dialect.update(table, columns, appended)


@cache
def _update_alike(dialect: Dialect, table: Table, columns: tuple[str, ...], appended: str) -> str:
    """Return the statement that gives all records with some numbers the same values."""
    values = [f'"{column}" = {dialect.value(table, column)}' for column in columns]
    values += [dialect.appended(table, appended, dialect.value(table, appended))] if appended else []
    return f"UPDATE {table.name} SET {', '.join(values)} WHERE id {dialect.numbers}"


@cache
def _add(dialect: Dialect, table: Table, keys: tuple[str, ...], count: str) -> tuple[str, str]:
    upsert = (
        f"{dialect.insert(table, (*keys, count))} ON CONFLICT ({', '.join(keys)})"
        f" DO UPDATE SET {count} = {table.name}.{count} + excluded.{count}"
    )
    return upsert, dialect.delete_zeros(table, keys, count)
