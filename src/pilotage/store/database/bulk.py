"""Write many rows with one statement: arrays that PostgreSQL unnests, ``executemany`` on SQLite."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Connection, Table

from pilotage.store.database import direct_statements

if TYPE_CHECKING:
    import sqlite3

Row = Sequence[Any]
AnyConnection: TypeAlias = "Connection | sqlite3.Connection"
"""A transaction of SQLAlchemy, or one of SQLite's driver."""


LONGEST, KEPT = 8000, 2000
"""An appended text that grows longer loses its middle. This many characters stay at each end."""

ALIKE = 8
"""Number of records with equal new values from which they get their own statement."""

GAP = "~"
"""Marks the missing middle."""


def insert(
    connection: AnyConnection, table: Table, columns: Sequence[str], rows: Sequence[Row], once: bool = False
) -> None:
    """Insert rows with the values of ``columns`` in order. With ``once``, skip existing rows."""
    if not rows:
        return
    statement = _insert(table, tuple(columns), _dialect(connection))
    if once:
        statement += " ON CONFLICT DO NOTHING"
    _run(connection, statement, rows)


def update(
    connection: AnyConnection, table: Table, columns: Sequence[str], rows: Sequence[Row], appended: str = ""
) -> None:
    """Set ``columns`` of the records whose numbers come last in each row.

    For an ``appended`` column, the added text stands before the number.
    """
    alike: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in rows:
        alike[tuple(row[:-1])].append(row[-1])
    dialect = _dialect(connection)
    # Thousands of jobs often get the same values. Send these once. SQLite's driver also lets other threads
    # run before each row.
    for values, ids in alike.items():
        if len(ids) >= ALIKE:
            statement = _update_alike(table, tuple(columns), dialect, appended)
            _execute(connection, statement, (*map(_plain, values), _numbers(ids, dialect)))
    if left := [(*values, id_) for values, ids in alike.items() if len(ids) < ALIKE for id_ in ids]:
        _run(connection, _update(table, tuple(columns), dialect, appended), left)


def add(
    connection: AnyConnection, table: Table, keys: Sequence[str], count: str, rows: Sequence[Row]
) -> None:
    """Add to counts. Each row has the key and then the difference. A count that comes to 0 is deleted.

    Rows are written in order of key, so that concurrent calls do not wait in a circle.
    """
    if not rows:
        return
    ordered = sorted(rows, key=lambda row: tuple(row[:-1]))
    # Only these can have reached 0.
    fallen = [row[:-1] for row in ordered if row[-1] < 0]
    added, dropped = _add(table, tuple(keys), count, _dialect(connection))
    _run(connection, added, ordered)
    if fallen:
        _run(connection, dropped, fallen)


def _dialect(connection: AnyConnection) -> str:
    return connection.dialect.name if isinstance(connection, Connection) else "sqlite"


def _execute(connection: AnyConnection, statement: str, values: tuple[Any, ...]) -> None:
    if not isinstance(connection, Connection):
        connection.execute(statement, values)
    elif connection.dialect.name == "sqlite":
        direct_statements.driver(connection).execute(statement, values)
    else:
        connection.exec_driver_sql(statement, values)


def _plain(value: Any) -> Any:
    """Return the value in a form that drivers know: a state is text."""
    return str(value) if isinstance(value, str) else value


def _numbers(ids: Sequence[int], dialect: str) -> str:
    return json.dumps(ids) if dialect == "sqlite" else array(ids)


def _run(connection: AnyConnection, statement: str, rows: Sequence[Row]) -> None:
    if not isinstance(connection, Connection):
        connection.executemany(statement, rows)
    elif connection.dialect.name == "sqlite":
        direct_statements.driver(connection).executemany(statement, rows)
    else:
        connection.exec_driver_sql(statement, _arrays(rows))


@cache
def _add(table: Table, keys: tuple[str, ...], count: str, dialect: str) -> tuple[str, str]:
    name = table.name
    upsert = (
        f"{_insert(table, (*keys, count), dialect)} ON CONFLICT ({', '.join(keys)})"
        f" DO UPDATE SET {count} = {name}.{count} + excluded.{count}"
    )
    if dialect == "sqlite":
        where = " AND ".join(f"{key} = ?" for key in keys)
        return upsert, f"DELETE FROM {name} WHERE {where} AND {count} = 0"
    where = " AND ".join(f"{name}.{key} = gone.{key}" for key in keys)
    gone = f"{_unnested(table, keys)} AS gone ({', '.join(keys)})"
    return upsert, f"DELETE FROM {name} USING {gone} WHERE {where} AND {name}.{count} = 0"


@cache
def _insert(table: Table, columns: tuple[str, ...], dialect: str) -> str:
    # In quotes: "group" is a keyword of SQL.
    names = ", ".join(f'"{name}"' for name in columns)
    if dialect == "sqlite":
        return f"INSERT INTO {table.name} ({names}) VALUES ({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table.name} ({names}) SELECT * FROM {_unnested(table, columns)}"


@cache
def _update_alike(table: Table, columns: tuple[str, ...], dialect: str, appended: str) -> str:
    """Return the statement that gives all records with some numbers the same values."""
    values = [f'"{column}" = {"?" if dialect == "sqlite" else _typed(table, column)}' for column in columns]
    if appended:
        more = "?" if dialect == "sqlite" else "%s::text"
        values.append(f"{appended} = {_shortened(table, appended, dialect)} || {more}")
    numbers = "IN (SELECT value FROM json_each(?))" if dialect == "sqlite" else "= ANY (%s::bigint[])"
    return f"UPDATE {table.name} SET {', '.join(values)} WHERE id {numbers}"


@cache
def _update(table: Table, columns: tuple[str, ...], dialect: str, appended: str) -> str:
    name = table.name
    if dialect == "sqlite":
        values = [f'"{column}" = ?' for column in columns]
        if appended:
            values.append(f"{appended} = {_shortened(table, appended, dialect)} || ?")
        return f"UPDATE {name} SET {', '.join(values)} WHERE id = ?"
    values = [f'"{column}" = new."{column}"' for column in columns]
    if appended:
        values.append(f"{appended} = {_shortened(table, appended, dialect)} || new.{appended}")
    given = (*columns, *([appended] if appended else []), "id")
    names = ", ".join(f'"{column}"' for column in given)
    rows = _unnested(table, given)
    return f"UPDATE {name} SET {', '.join(values)} FROM {rows} AS new ({names}) WHERE {name}.id = new.id"


def _shortened(table: Table, column: str, dialect: str) -> str:
    """Return an expression that cuts the middle out of a long text."""
    text = f"{table.name}.{column}"
    ends = f"left({text}, {KEPT}) || '{GAP}' || right({text}, {KEPT})"
    if dialect == "sqlite":
        ends = f"substr({text}, 1, {KEPT}) || '{GAP}' || substr({text}, -{KEPT})"
    return f"CASE WHEN length({text}) > {LONGEST} THEN {ends} ELSE {text} END"


def _typed(table: Table, column: str) -> str:
    """Return PostgreSQL's parameter for a value of a column."""
    # Import it only for such a store: it takes 2 MiB.
    from sqlalchemy.dialects import postgresql

    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    return f"%s::{table.c[column].type.dialect_impl(dialect).compile(dialect)}"


def _unnested(table: Table, columns: Iterable[str]) -> str:
    """Return a parameter for each column: an array literal of its type."""
    return f"unnest({', '.join(f'{_typed(table, name)}[]' for name in columns)})"


def _arrays(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(array(values) for values in zip(*rows, strict=True))


def array(values: Sequence[Any]) -> str:
    """Return PostgreSQL's array literal. The driver would be slow for each element."""
    words = {value: word(value) for value in set(values)}
    return array_of(words[value] for value in values)


def word(value: Any) -> str:
    """Return a value in the form of PostgreSQL's array literals."""
    return _WORDS[type(value)](value)


def array_of(words: Iterable[str]) -> str:
    """Return PostgreSQL's array literal of values in that form."""
    return "{" + ",".join(words) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Words(dict[type, Callable[[Any], str]]):
    """Writers of values by type. A subclass of str, such as a state, is written as text."""

    def __missing__(self, type_: type) -> Callable[[Any], str]:
        return next(write for known, write in self.items() if issubclass(type_, known))


_WORDS = _Words(
    {
        str: _quoted,
        bool: lambda value: "true" if value else "false",
        int: str,
        float: repr,
        type(None): lambda _: "NULL",
    }
)
