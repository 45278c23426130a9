"""Parts that all tables share: identifiers, owners, states, and conditions for partial indexes.

Look for a table beside the rows and views of its noun. Times are seconds since 1970 UTC, sizes bytes, memory
MB, as in the model. The commit assigns identifiers to tasks, jobs, transfers, pilots and decisions.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    FromClause,
    Index,
    Integer,
    MetaData,
    String,
    and_,
    func,
    literal_column,
)

from pilotage.model.records.states import State
from pilotage.model.values.identity import Owners, WholeVo
from pilotage.store.database.dialects import Dialect, Worded

LATER = "later"
"""The metadata key for functions that make further indexes."""

metadata = MetaData(info={LATER: []})

Id = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite uses a column as the row's own number only if its type is INTEGER."""


def id_column() -> Column[int]:
    """Return the column for a record's number from the commit."""
    return Column("id", Id, primary_key=True, autoincrement=False)


def text_column(name: str) -> Column[str]:
    """Return a text column that is empty by default."""
    return Column(name, String, nullable=False, server_default="")


def owner_columns() -> list[Column[Any]]:
    """Return the columns of an ``Identity``. Plain names would look like the record's own."""
    return [text_column("owner"), text_column("vo"), text_column("group"), text_column("vo_role")]


def is_of(owners: Owners, name: ColumnElement[str], vo: ColumnElement[str]) -> list[ColumnElement[bool]]:
    """Return the conditions that a row belongs to some owners, by the columns of its owner's name and VO."""
    if owners is None:
        return []
    if isinstance(owners, WholeVo):
        return [vo == owners.vo]
    return [name == owners.name, vo == owners.vo]


class any_of(Worded):  # noqa: N801 -- reads as a function in a query
    """``any_of(column, *words)``: the column's value is one of some words."""

    def words(self, dialect: Dialect, *parts: str) -> str:
        return dialect.any_of(*parts)


def is_state(table: FromClause, *states: State) -> ColumnElement[bool]:
    """Return the condition that a row is in one of these states, with literal states.

    A partial index is used only if the query repeats its condition word for word.
    """
    words: list[ColumnElement[Any]] = [literal_column(f"'{state}'") for state in states]
    return table.c.state == words[0] if len(words) == 1 else any_of(table.c.state, *words)


def has_state(table: FromClause, *states: State) -> ColumnElement[bool]:
    """Return the same condition in a form that no state index serves, for rows selected by another index."""
    # Literal, because a statement with a list parameter cannot run for many rows.
    return func.coalesce(table.c.state, "").in_([literal_column(f"'{state}'") for state in states])


def begins(name: Column[str], prefix: str, after: str) -> ColumnElement[bool]:
    """Return the condition for names with a prefix after a given name, as a range of names."""
    # Use one lower bound: with two, SQLite starts at the lower one for every page.
    lower = name > after if after >= prefix else name >= prefix
    end = _first_after(prefix)
    return lower if end is None else and_(lower, name < end)


def _first_after(prefix: str) -> str | None:
    """Return the first text after all that have a prefix; None if there is none."""
    start = prefix.rstrip("\U0010ffff")
    if not start:
        return None
    following = ord(start[-1]) + 1
    # Skip surrogates: a text cannot contain them.
    return start[:-1] + chr(0xE000 if following == 0xD800 else following)


def index_later(make: Callable[[], object]) -> None:
    """Declare an index that differs between the databases.

    Making the index loads the dialects of both databases, and a server needs only one. The migrations have
    created the index, so only ``with_all_indexes`` calls ``make``.
    """
    metadata.info[LATER].append(make)


def partial_index(
    name: str, *columns: ColumnElement[Any], condition: ColumnElement[bool], unique: bool = False
) -> None:
    """Declare an index over the rows that meet a condition."""
    index_later(
        lambda: Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
    )
