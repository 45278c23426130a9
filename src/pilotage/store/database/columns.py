"""Parts that the tables share: identifiers, owners, states, and conditions that partial indexes serve.

Each table stands with the rows and views of its noun. Times are seconds since 1970 UTC, sizes bytes, memory
MB, as in the model. The commit gives tasks, jobs, transfers, pilots and decisions their identifiers.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Double,
    FromClause,
    Index,
    Integer,
    MetaData,
    String,
    and_,
    collate,
    func,
    literal_column,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NullType, TypeEngine

from pilotage.model.records.states import State

LATER = "later"
"""Where the metadata has what makes further indexes."""

metadata = MetaData(info={LATER: []})

Id = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite makes a column the row's own number only if its type reads INTEGER."""


def id_column() -> Column[int]:
    """The number that the commit gives a record."""
    return Column("id", Id, primary_key=True, autoincrement=False)


def text_column(name: str) -> Column[str]:
    """A text that is empty unless given."""
    return Column(name, String, nullable=False, server_default="")


def owner_columns() -> list[Column[Any]]:
    """The columns of an ``Identity``; names alone would be taken for the record's own."""
    return [text_column("owner"), text_column("vo"), text_column("group"), text_column("vo_role")]


def life_columns() -> list[Column[Any]]:
    """The columns of every record with states; tasks and pilots stay at their first attempt."""
    return [
        Column("state", String, nullable=False),
        Column("attempt", Integer, nullable=False, server_default="1"),
        Column("created", Double, nullable=False),
        Column("since", Double, nullable=False),
        text_column("error"),
    ]


class one_of(FunctionElement[Any]):  # noqa: N801 -- reads as a function in a query
    """``one_of(column, *words)``: the column's value is one of some words.

    SQLite gets comparisons: of a list it makes a table, for every statement and every index with this
    condition, which took half the time of an update of a job.
    """

    name = "one_of"
    # A Boolean would be compared with 1 on SQLite, which then uses no index.
    type: TypeEngine[Any] = NullType()
    inherit_cache = True


@compiles(one_of, "sqlite")
def _compared(element: one_of, compiler: SQLCompiler, **options: Any) -> str:
    column, *words = [compiler.process(clause, **options) for clause in element.clauses]
    return f"({' OR '.join([f'{column} = {word}' for word in words])})"


@compiles(one_of, "postgresql")
def _listed(element: one_of, compiler: SQLCompiler, **options: Any) -> str:
    column, *words = [compiler.process(clause, **options) for clause in element.clauses]
    return f"{column} IN ({', '.join(words)})"


def is_state(table: FromClause, *states: State) -> ColumnElement[bool]:
    """The condition that a row is in one of these states, with the states written out.

    A partial index is used only where the query repeats the index's condition word for word.
    """
    words: list[ColumnElement[Any]] = [literal_column(f"'{state}'") for state in states]
    return table.c.state == words[0] if len(words) == 1 else one_of(table.c.state, *words)


def has_state(table: FromClause, *states: State) -> ColumnElement[bool]:
    """The same condition for rows found by something else: it keeps planners off the indexes of states."""
    # Written out: a list as a parameter cannot be executed for many rows at once.
    return func.coalesce(table.c.state, "").in_([literal_column(f"'{state}'") for state in states])


def by_character(dialect: str, name: Column[str]) -> ColumnElement[str]:
    """Return a name as it is ordered by character: there names with one prefix stand together."""
    # As SQLite orders anyway; PostgreSQL may order as a language does.
    return name if dialect == "sqlite" else collate(name, "C")


def begins(dialect: str, name: Column[str], prefix: str, after: str) -> ColumnElement[bool]:
    """Return the condition of a prefix beyond a name, as a range of :func:`by_character`."""
    ordered = by_character(dialect, name)
    # One lower bound only: with two, SQLite walks from the lower one again for every page.
    lower = ordered > after if after >= prefix else ordered >= prefix
    return and_(lower, ordered <= f"{prefix}\U0010ffff")


def index_later(make: Callable[[], object]) -> None:
    """Declare an index of which the databases have forms of their own.

    To make it loads the dialects of both databases, of which a server needs one. It is in its store already:
    only :func:`~pilotage.store.tables.records.with_all_indexes` makes it.
    """
    metadata.info[LATER].append(make)


def partial_index(
    name: str, *columns: ColumnElement[Any], where: ColumnElement[bool], unique: bool = False
) -> None:
    """Declare an index over the rows that meet a condition."""
    index_later(lambda: Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where))
