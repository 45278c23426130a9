"""Queries through SQLite's own driver: SQLAlchemy takes longer to pass one on than SQLite to run it.

SQLAlchemy passes a query on the first time, and its text is cached for the next. Queries built for a single
use are never reused, and disappear with their builder.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Dialect, Executable

if TYPE_CHECKING:
    import sqlite3

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement whose placeholders stand for ``order``.

    ``written`` values are passed to the driver unchanged.
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


_known: WeakKeyDictionary[Executable, _Statement | None] = WeakKeyDictionary()
"""Cached statements, of all connections: SQLite's text is the same for every file."""


def rows(connection: Connection, query: Executable, values: Mapping[str, Any]) -> list[Row] | None:
    """Return the driver's rows for a query; None if SQLAlchemy should run it.

    That is so on another database, the first time, and if a value needs one placeholder per element.
    """
    if connection.dialect.name != "sqlite":
        return None
    # Without a lock: two threads at once make the same statement twice.
    if query not in _known:
        _known[query] = None
        return None
    statement = _known[query]
    if statement is None:
        statement = _known[query] = _compiled(query, connection.dialect, values)
    if not statement.names >= values.keys():
        return None
    return driver(connection).execute(statement.text, statement.parameters(values)).fetchall()


def driver(connection: Connection) -> "sqlite3.Connection":
    """Return the driver's connection, inside the current transaction."""
    own: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
    return own


def _compiled(query: Any, dialect: Dialect, values: Mapping[str, Any]) -> _Statement:
    # Lists need values for their placeholders, and get new ones each time.
    compiled = query.compile(dialect=dialect)
    state = compiled.construct_expanded_state(dict(values))
    order = tuple(state.positiontup or ())
    processors = {**compiled._bind_processors, **state.processors}
    writes = {name: write for name, write in processors.items() if name in order}
    constants = {
        name: value for name, value in state.parameters.items() if name in order and name not in values
    }
    return _Statement(state.statement, order, frozenset(order), constants, tuple(writes.items()))
