"""Queries by SQLite's own driver: SQLAlchemy takes longer to hand one over than SQLite to run it.

A query is handed over by SQLAlchemy the first time, and its text kept for the next. Those that are built anew
each time are never asked for twice, and are forgotten with whoever built them.
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
    """A statement whose marks stand for ``order``; ``written`` are given as the driver takes them."""

    text: str
    order: tuple[str, ...]
    names: frozenset[str]
    constants: Mapping[str, Any]
    written: tuple[tuple[str, Callable[[Any], Any]], ...]

    def parameters(self, values: Mapping[str, Any]) -> list[Any]:
        """Raises KeyError for a name that is given no value."""
        if self.constants:
            values = {**self.constants, **values}
        if self.written:
            values = {**values, **{name: write(values[name]) for name, write in self.written}}
        return [values[name] for name in self.order]


_known: WeakKeyDictionary[Executable, _Statement | None] = WeakKeyDictionary()
"""Statements that were asked for, of all connections: a text of SQLite's is the same for every file."""


def rows(connection: Connection, query: Executable, values: Mapping[str, Any]) -> list[Row] | None:
    """The rows of a query as the driver has them; None where SQLAlchemy is to ask for them.

    That is on another database, the first time, and where a value stands for as many marks as it has parts.
    """
    if connection.dialect.name != "sqlite":
        return None
    # Not locked: two threads that come at once make the same statement twice.
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
    """The driver's connection, in the transaction that was begun."""
    own: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
    return own


def _compiled(query: Any, dialect: Dialect, values: Mapping[str, Any]) -> _Statement:
    # Values are needed to write out lists, and are given anew each time.
    compiled = query.compile(dialect=dialect)
    state = compiled.construct_expanded_state(dict(values))
    order = tuple(state.positiontup or ())
    processors = {**compiled._bind_processors, **state.processors}
    writes = {name: write for name, write in processors.items() if name in order}
    constants = {
        name: value for name, value in state.parameters.items() if name in order and name not in values
    }
    return _Statement(state.statement, order, frozenset(order), constants, tuple(writes.items()))
