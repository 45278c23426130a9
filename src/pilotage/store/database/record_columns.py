"""Derive columns, the maker of records from rows, and rows of new records from a record's class.

Each field has a column of its name, an owner has four. A record within a record is stored as JSON. A field's
default, unless it is None, is also the column's.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sqlalchemy import Boolean, Column, Double, Integer, String, Table, Text, false
from sqlalchemy.schema import SchemaItem

from pilotage.model.documents.serialization import from_json
from pilotage.model.values.identity import Identity
from pilotage.model.values.types import FieldMark
from pilotage.store.database.columns import Id, id_column, metadata, owner_columns, text_column

R = TypeVar("R")

SETTABLE: Any = {FieldMark.SETTABLE: True}
"""The ``info`` of a column that a decision may set, though it belongs to no field."""

_TYPES: Mapping[Any, Any] = {int: Integer, float: Double, bool: Boolean, str: String, Text: Text}
_OWNER = {"owner": "name", "vo": "vo", "group": "group", "vo_role": "vo_role"}


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a record, with its type without None."""

    name: str
    type: Any
    optional: bool
    marks: frozenset[Any]
    default: Any

    @property
    def columns(self) -> Sequence[str]:
        """Return the names of its columns."""
        if FieldMark.ELSEWHERE in self.marks:
            return ()
        return tuple(_OWNER) if self.type is Identity else (self.name,)

    def column(self) -> Column[Any]:
        """Return its column. Raises TypeError for a type that has none."""
        plain = str if _is_states(self.type) else Text if is_dataclass(self.type) else self.type
        if plain not in _TYPES:
            raise TypeError(f"there is no column for the type of {self.name}, {self.type}")
        default = {} if self.default in (MISSING, None) else {"server_default": _default(self.default)}
        return Column(
            self.name,
            Id if FieldMark.LONG in self.marks else _TYPES[plain],
            nullable=self.optional,
            info=SETTABLE if FieldMark.SETTABLE in self.marks else None,
            **default,
        )

    def value(self, place: int) -> str:
        """Return the Python expression for its value, which begins at this place of the row."""
        if self.columns == tuple(_OWNER):
            parts = enumerate(_OWNER.values(), start=place)
            return f"Identity({', '.join(f'{part}=row[{at}]' for at, part in parts)})"
        if not self.columns:
            return self.name
        if is_dataclass(self.type):
            return f"row[{place}] and from_json(type_of_{self.name}, row[{place}])"
        if _is_states(self.type):
            return f"type_of_{self.name}[row[{place}]]"
        return f"bool(row[{place}])" if self.type is bool else f"row[{place}]"


def _is_states(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, StrEnum)


def _default(value: Any) -> Any:
    return false() if value is False else str(value)


def _unwrapped(hint: Any) -> tuple[Any, bool, frozenset[Any]]:
    """Return a type without None and marks, whether it may be None, and the marks."""
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        plain, optional, more = _unwrapped(inner)
        return plain, optional, more.union(mark for mark in marks if isinstance(mark, FieldMark))
    if get_origin(hint) in (Union, UnionType):
        kinds, optionals, all_marks = zip(*map(_unwrapped, get_args(hint)), strict=True)
        plain = reduce(or_, (kind for kind in kinds if kind is not NoneType))
        return plain, NoneType in kinds or any(optionals), frozenset().union(*all_marks)
    return str if get_origin(hint) is Literal else hint, False, frozenset()


def _fields(record: Any) -> tuple[_Field, ...]:
    hints = get_type_hints(record, include_extras=True)
    return tuple(
        _Field(field.name, *_unwrapped(hints[field.name]), field.default) for field in fields(record)
    )


def record_columns(record: type) -> list[Column[Any]]:
    """Return the columns of a record's fields, in their order."""
    columns: list[Column[Any]] = []
    for field in _fields(record):
        if field.type is Identity:
            columns += owner_columns()
        else:
            columns += [id_column() if name == "id" else field.column() for name in field.columns]
    return columns


def record_table(name: str, record: type, *more: SchemaItem) -> Table:
    """Return the table of a record with states, with further columns and indexes.

    All count attempts, and have a history.
    """
    columns = record_columns(record)
    if "attempt" not in {column.name for column in columns}:
        columns.append(Column("attempt", Integer, nullable=False, server_default="1"))
    return Table(name, metadata, *columns, text_column("history"), *more)


def listed(columns: Iterable[Column[Any]], of: str = "") -> str:
    """Return columns as a statement lists them, ``of`` a table."""
    return ", ".join(f'{of}"{column.name}"' for column in columns)


def read_columns(table: Table, record: type) -> tuple[Column[Any], ...]:
    """Return the columns that ``maker`` reads, in its order."""
    return tuple(table.c[column] for field in _fields(record) for column in field.columns)


def settable(table: Table) -> frozenset[str]:
    """Return the names of the columns that a decision may set."""
    return frozenset(column.name for column in table.c if FieldMark.SETTABLE in column.info)


def settable_fields(record: type) -> tuple[str, ...]:
    """Return the names of the fields that a decision may set."""
    return tuple(field.name for field in _fields(record) if FieldMark.SETTABLE in field.marks)


def maker(record: type[R], *extra: str) -> Callable[..., R]:
    """Return the function that makes a record from a row that begins with its columns.

    The values of some ``extra`` fields follow the row.
    """
    columns = [field for field in _fields(record) if field.columns or field.name in extra]
    make: Callable[..., R] = _function(record, ", ".join(["row", *extra]), "Record({})", columns)
    return make


def changer(record: type[R], names: Iterable[str]) -> Callable[[R, Sequence[Any]], R]:
    """Return the function that copies a record with some fields changed to the values of a row."""
    by_name = {field.name: field for field in _fields(record)}
    changing = [by_name[name] for name in names]
    change: Callable[[R, Sequence[Any]], R] = _function(record, "of, row", "replace(of, {})", changing)
    return change


def _function(record: type, takes: str, returns: str, of: Iterable[_Field]) -> Any:
    """Return a generated function that sets fields from a row.

    It names each field, like the ``__init__`` of a dataclass. A loop would take several times as long.
    """
    names: dict[str, Any] = {
        "Record": record,
        "Identity": Identity,
        "replace": replace,
        "from_json": from_json,
    }
    values, place = [], 0
    for field in of:
        values.append(f"{field.name}={field.value(place)}")
        place += len(field.columns)
        states = {str(state): state for state in field.type} if _is_states(field.type) else None
        names[f"type_of_{field.name}"] = states or field.type
    exec(f"def make({takes}): return {returns.format(', '.join(values))}", names)
    return names["make"]


def row_maker(record: type[R]) -> Callable[[R], dict[str, Any]]:
    """Return the function that makes the row of a new record, by column."""
    values = [
        f"{column!r}: new.{field.name}" + (f".{_OWNER[column]}" if field.type is Identity else "")
        for field in _fields(record)
        for column in field.columns
    ]
    names: dict[str, Any] = {}
    exec(f"def row(new): return {{{', '.join(values)}}}", names)
    row: Callable[[R], dict[str, Any]] = names["row"]
    return row
