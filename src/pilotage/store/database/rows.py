"""Run queries through SQLite's driver: SQLAlchemy takes longer to pass a query on than SQLite to run it.

SQLAlchemy runs a query the first time; then its text is cached. Queries built for a single use are never
reused, and leave the cache with their builder. Thousands of values are one parameter.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import ColumnElement, Connection, Dialect, Executable, Text, bindparam
from sqlalchemy.types import NullType, TypeDecorator, TypeEngine

from pilotage.store.database import dialects

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A statement with a placeholder for each name in ``order``.

    ``constants`` are values within the query, and ``written`` has functions that convert parameters.
    """

    text: str
    order: tuple[str, ...]
    names: frozenset[str]
    constants: Mapping[str, Any]
    written: tuple[tuple[str, Callable[[Any], Any]], ...]

    def parameters(self, values: Mapping[str, Any]) -> list[Any]:
        """Raises KeyError for a name without a value."""
        if self.constants:
            values = {**self.constants, **values}
        if self.written:
            values = {**values, **{name: write(values[name]) for name, write in self.written}}
        return [values[name] for name in self.order]


_compiled: WeakKeyDictionary[Executable, _Compiled | None] = WeakKeyDictionary()
"""Queries that were run, of all connections: SQLite's text is the same for every file."""


def raw_rows(connection: Connection, query: Any, **values: Any) -> Sequence[Row]:
    """Return a query's rows in the driver's form: converting many rows takes the most time."""
    if isinstance(query, dialects.Statement):
        query = query.of(connection)
    if (statement := compiled(connection, query, values)) is not None:
        return dialects.driver(connection).execute(statement.text, statement.parameters(values)).fetchall()
    result = connection.execute(query, values)
    rows: Sequence[Row] = result.cursor.fetchall() if result.cursor else ()
    # SQLAlchemy does not notice that the driver has returned all rows.
    result.close()
    return rows


def compiled(connection: Connection, query: Any, values: Mapping[str, Any]) -> _Compiled | None:
    """Return a query for SQLite's driver; None if SQLAlchemy should run it.

    SQLAlchemy runs it on PostgreSQL, the first time, and if a value needs one placeholder per element.
    """
    if connection.dialect.name != dialects.SQLITE.name:
        return None
    # This needs no lock: at worst two threads make the same statement.
    if query not in _compiled:
        _compiled[query] = None
        return None
    statement = _compiled[query]
    if statement is None:
        # Lists need values for their placeholders, and get new ones each time.
        compiled_query = query.compile(dialect=connection.dialect)
        state = compiled_query.construct_expanded_state(dict(values))
        order = tuple(state.positiontup or ())
        processors = {**compiled_query._bind_processors, **state.processors}
        writes = {name: write for name, write in processors.items() if name in order}
        constants = {
            name: value for name, value in state.parameters.items() if name in order and name not in values
        }
        statement = _Compiled(state.statement, order, frozenset(order), constants, tuple(writes.items()))
        _compiled[query] = statement
    return statement if statement.names >= values.keys() else None


class Values(TypeDecorator[list[Any]]):
    """Many values as one parameter: JSON text on SQLite, an array literal on PostgreSQL."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type for the driver. For PostgreSQL, the statement itself has the array's type."""
        return dialect.type_descriptor(dialects.DIALECTS[dialect.name].choose(Text(), NullType()))

    def process_bind_param(self, value: Iterable[Any] | None, dialect: Dialect) -> Any:
        """Return the values in the driver's form."""
        return dialects.DIALECTS[dialect.name].values(list(value or ()))


class among(dialects.Worded):  # noqa: N801 -- reads as a function in a query
    """``among(column, "ids")``: the column's value is in the list bound to the parameter ``ids``."""

    def __init__(self, column: ColumnElement[Any], parameter: str) -> None:
        super().__init__(column, bindparam(parameter, type_=Values()))

    def words(self, dialect: dialects.Dialect, *parts: str) -> str:
        (column, values), (of, _) = parts, self.clauses
        return dialect.among(column, values, "BIGINT" if of.type.python_type is int else "TEXT")
