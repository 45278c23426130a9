"""How SQLite and PostgreSQL differ: each difference has a name here, and the SQL for either database."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sqlalchemy import URL, Connection, Table, TableClause, TextClause, bindparam, column, make_url, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NullType, TypeEngine

from pilotage.store.database import arrays

if TYPE_CHECKING:
    import sqlite3


T = TypeVar("T")
AnyConnection: TypeAlias = "Connection | sqlite3.Connection"
"""A transaction of SQLAlchemy, or one of SQLite's driver."""


LONGEST, KEPT = 8000, 2000
"""An appended text that grows longer loses its middle. This many characters stay at each end."""

GAP = "~"
"""Marks the missing middle."""


def quoted(columns: Iterable[str]) -> str:
    """Return columns as a statement lists them: "group" is a keyword of SQL."""
    return ", ".join(f'"{name}"' for name in columns)


class Dialect:
    """The SQL of SQLite. Methods take and return columns, values and parameters as SQL."""

    name, title = "sqlite", "SQLite"
    """As SQLAlchemy names it, and as people do."""
    mark = "?"
    """The placeholder for a value in the driver's statements."""
    numbers = "IN (SELECT value FROM json_each(?))"
    """The condition that a number is in the list of one parameter, for a driver's statement."""
    byte_length = "length(CAST({} AS BLOB))"
    """The bytes of a text."""
    find, least = "instr", "min"
    """The functions for the place of a text in another one (0 if absent), and for the least of values."""
    whole = "CAST({} AS INTEGER)"
    """A number without its fraction."""
    size = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    """The query for the bytes of the database."""
    cut = "substr({text}, 1, {kept}) || '{gap}' || substr({text}, -{kept})"
    """The first and last ``kept`` characters of a ``text``, with ``gap`` between them."""

    def choose(self, sqlite: T, postgresql: T) -> T:  # noqa: ARG002
        """Return the value for this database."""
        return sqlite

    def any_of(self, column: str, *words: str) -> str:
        """Return the condition that a column has one of some values."""
        # For a list SQLite builds a table in every statement and for every index with this condition, which
        # took half the time of updating a job.
        return f"({' OR '.join([f'{column} = {word}' for word in words])})"

    def among(self, column: str, values: str, of: str) -> str:  # noqa: ARG002
        """Return the condition that a column has one of the ``values`` of one parameter, of type ``of``."""
        return f"{column} IN (SELECT value FROM json_each({values}))"

    def values(self, values: Sequence[Any]) -> str:
        """Return many values in the form of one parameter."""
        return json.dumps(values)

    def listed(self, parameter: str) -> str:
        """Return the list of the texts in a parameter, which is JSON."""
        return f"(SELECT value FROM json_each(:{parameter}))"

    def rows(self, parameter: str, **columns: type) -> str:
        """Return the query for the rows in a parameter, which is JSON, with these columns."""
        listed = ", ".join(f"value ->> {place} AS {name}" for place, name in enumerate(columns))
        return f"SELECT {listed} FROM json_each(:{parameter})"

    def each(self, table: str, name: str, head: str) -> str:
        """Return the join with the few rows of a table that ``head`` selects. ``head`` names the table x."""
        return f"CROSS JOIN {table} AS {name} ON {name}.id IN (SELECT x.id {head})"

    def matches(self, pattern: str) -> tuple[str, str]:
        """Return the operator for names that match a pattern with ``*`` and ``?``, and the pattern for it."""
        # LIKE of SQLite ignores case.
        return "GLOB", pattern.replace("[", "[[]")

    def insert(self, table: Table, columns: Sequence[str]) -> str:
        """Return the driver's statement that inserts rows with these columns."""
        return f"INSERT INTO {table.name} ({quoted(columns)}) VALUES ({', '.join('?' * len(columns))})"

    def update(self, table: Table, columns: Sequence[str], appended: str) -> str:
        """Return the driver's statement for rows of new values, then the text to append, then the id."""
        values = [f'"{column}" = ?' for column in columns]
        values += [self.appended(table, appended, "?")] if appended else []
        return f"UPDATE {table.name} SET {', '.join(values)} WHERE id = ?"

    def delete_zeros(self, table: Table, keys: Sequence[str], count: str) -> str:
        """Return the driver's statement that deletes the rows of given keys if their count is 0."""
        return f"DELETE FROM {table.name} WHERE {' AND '.join(f'{key} = ?' for key in keys)} AND {count} = 0"

    def value(self, table: Table, column: str) -> str:  # noqa: ARG002
        """Return the placeholder for a value of a column in a driver's statement."""
        return "?"

    def run(self, connection: AnyConnection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a driver's statement for many rows."""
        driver(connection).executemany(statement, rows)

    def run_once(self, connection: AnyConnection, statement: str, values: tuple[Any, ...]) -> None:
        """Run a driver's statement with these values."""
        driver(connection).execute(statement, values)

    def appended(self, table: Table, column: str, more: str) -> str:
        """Return the assignment that appends to a text, and cuts the middle out of a long one."""
        old = f"{table.name}.{column}"
        cut = self.cut.format(text=old, kept=KEPT, gap=GAP)
        return f"{column} = CASE WHEN length({old}) > {LONGEST} THEN {cut} ELSE {old} END || {more}"


class PostgreSQL(Dialect):
    """The SQL of PostgreSQL, where it differs."""

    name, title, mark = "postgresql", "PostgreSQL", "%s"
    numbers = "= ANY (%s::bigint[])"
    byte_length = "octet_length({})"
    find, least = "strpos", "least"
    whole = "floor({})"
    size = "SELECT pg_database_size(current_database())"
    cut = "left({text}, {kept}) || '{gap}' || right({text}, {kept})"

    def choose(self, sqlite: T, postgresql: T) -> T:  # noqa: ARG002
        return postgresql

    def any_of(self, column: str, *words: str) -> str:
        return f"{column} IN ({', '.join(words)})"

    def among(self, column: str, values: str, of: str) -> str:
        return f"{column} = ANY ({values}::{of}[])"

    def values(self, values: Sequence[Any]) -> str:
        return arrays.array(values)

    def listed(self, parameter: str) -> str:
        return f"(SELECT json_array_elements_text(CAST(:{parameter} AS json)))"

    def rows(self, parameter: str, **columns: type) -> str:
        listed = ", ".join(
            f"(value ->> {place}){'::bigint' if kind is int else ''} AS {name}"
            for place, (name, kind) in enumerate(columns.items())
        )
        return f"SELECT {listed} FROM json_array_elements(CAST(:{parameter} AS json)) AS value"

    def each(self, table: str, name: str, head: str) -> str:  # noqa: ARG002
        return f"CROSS JOIN LATERAL (SELECT x.* {head}) AS {name}"

    def matches(self, pattern: str) -> tuple[str, str]:
        for character in "\\%_":
            pattern = pattern.replace(character, f"\\{character}")
        return "LIKE", pattern.replace("*", "%").replace("?", "_")

    def insert(self, table: Table, columns: Sequence[str]) -> str:
        return f"INSERT INTO {table.name} ({quoted(columns)}) SELECT * FROM {self._unnested(table, columns)}"

    def update(self, table: Table, columns: Sequence[str], appended: str) -> str:
        values = [f'"{column}" = new."{column}"' for column in columns]
        values += [self.appended(table, appended, f"new.{appended}")] if appended else []
        every = [*columns, *([appended] if appended else []), "id"]
        new = f"{self._unnested(table, every)} AS new ({quoted(every)})"
        return f"UPDATE {table.name} SET {', '.join(values)} FROM {new} WHERE {table.name}.id = new.id"

    def delete_zeros(self, table: Table, keys: Sequence[str], count: str) -> str:
        same_keys = " AND ".join(f"{table.name}.{key} = old.{key}" for key in keys)
        old = f"{self._unnested(table, keys)} AS old ({', '.join(keys)})"
        return f"DELETE FROM {table.name} USING {old} WHERE {same_keys} AND {table.name}.{count} = 0"

    def value(self, table: Table, column: str) -> str:
        # Import it only for such a store: it takes 2 MiB.
        from sqlalchemy.dialects import postgresql

        dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
        return f"%s::{table.c[column].type.dialect_impl(dialect).compile(dialect)}"

    def run(self, connection: AnyConnection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self.run_once(connection, statement, tuple(map(arrays.array, zip(*rows, strict=True))))

    def run_once(self, connection: AnyConnection, statement: str, values: tuple[Any, ...]) -> None:
        assert isinstance(connection, Connection)
        connection.exec_driver_sql(statement, values)

    def _unnested(self, table: Table, columns: Iterable[str]) -> str:
        """Return a parameter for each column: an array literal of its type."""
        return f"unnest({', '.join(f'{self.value(table, name)}[]' for name in columns)})"


SQLITE, POSTGRESQL = Dialect(), PostgreSQL()
DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (SQLITE, POSTGRESQL)}


def sqlite_file(url: str | URL) -> Path | None:
    """Return the file of a store; None if it is in memory, or on PostgreSQL."""
    address = make_url(url)
    if address.get_backend_name() != SQLITE.name or address.database in (None, "", ":memory:"):
        return None
    return Path(str(address.database))


def dialect_of(connection: AnyConnection) -> Dialect:
    """Return the dialect of the database at a connection."""
    return DIALECTS[connection.dialect.name] if isinstance(connection, Connection) else SQLITE


def driver(connection: AnyConnection) -> "sqlite3.Connection":
    """Return the connection of SQLite's driver, inside the current transaction."""
    if not isinstance(connection, Connection):
        return connection
    of_driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
    return of_driver


class Statement:
    """A statement that differs between the databases, with the types of some parameters."""

    def __init__(self, written: Callable[[Dialect], str], **types: TypeEngine[Any]) -> None:
        self._written, self._types = written, types
        self._texts: dict[str, TextClause] = {}

    def of(self, connection: Connection) -> TextClause:
        """Return the statement for the database at a connection: always the same object."""
        name = connection.dialect.name
        if name not in self._texts:
            types = [bindparam(parameter, type_=kind) for parameter, kind in self._types.items()]
            self._texts[name] = text(self._written(DIALECTS[name])).bindparams(*types)
        return self._texts[name]


class Worded(FunctionElement[Any]):
    """A part of a query that differs between the databases."""

    name: str
    # SQLite would compare a Boolean with 1, and then use no index.
    type: TypeEngine[Any] = NullType()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name, cls.inherit_cache = cls.__name__, True

    def words(self, dialect: Dialect, *parts: str) -> str:
        """Return the SQL for a database from the SQL of the parts."""
        raise NotImplementedError


@compiles(Worded)
def _words(element: Worded, compiler: SQLCompiler, **options: Any) -> str:
    parts = [compiler.process(clause, **options) for clause in element.clauses]
    return element.words(DIALECTS[compiler.dialect.name], *parts)


class WithDeltas(TableClause):
    """A table of counts and the differences in ``deltas`` that it lacks. Only PostgreSQL has deltas."""

    inherit_cache = True

    def __init__(self, name: str, table: Table, deltas: str) -> None:
        super().__init__(name, *(column(key, of.type) for key, of in table.c.items()))
        stored = f"SELECT {', '.join(table.c.keys())} FROM {table.name}"
        self.sources = table.name, f"({stored} UNION ALL {deltas})"


@compiles(WithDeltas)
def _source(element: WithDeltas, compiler: SQLCompiler, asfrom: bool = False, **_options: Any) -> str:
    source = DIALECTS[compiler.dialect.name].choose(*element.sources)
    return f"{source} AS {element.name}" if asfrom else element.name


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
        f"INSERT INTO {table.name} ({quoted(names)}) VALUES ({', '.join(f':{name}' for name in names)})"
        f" ON CONFLICT ({quoted(key)}) DO UPDATE SET {changed}{condition}"
    )


def replaced(columns: Iterable[str]) -> dict[str, str]:
    """Return changes that give columns their new values."""
    return {column: f'excluded."{column}"' for column in columns}
