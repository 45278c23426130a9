"""Conditions with thousands of values in one parameter, the same for both databases."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Dialect, Text, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NullType, TypeDecorator, TypeEngine

from pilotage.store.database import bulk, direct_statements


class Values(TypeDecorator[list[Any]]):
    """Many values as one parameter: JSON text on SQLite, an array literal on PostgreSQL."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type for the driver. An array's type stands in the statement instead."""
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else NullType())

    def process_bind_param(self, value: Iterable[Any] | None, dialect: Dialect) -> Any:
        """Return the values in the driver's form."""
        values = list(value or ())
        return json.dumps(values) if dialect.name == "sqlite" else bulk.array(values)


class among(FunctionElement[Any]):  # noqa: N801 -- reads as a function in a query
    """``among(column, "ids")``: the column's value is one of those bound to the parameter ``ids``."""

    name = "among"
    # SQLite would compare a Boolean with 1, and then use no index.
    type: TypeEngine[Any] = NullType()
    inherit_cache = True

    def __init__(self, column: ColumnElement[Any], parameter: str) -> None:
        super().__init__(column, bindparam(parameter, type_=Values()))


@compiles(among, "sqlite")
def _sqlite(element: among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = element.clauses
    return (
        f"{compiler.process(column, **options)} IN "
        f"(SELECT value FROM json_each({compiler.process(values, **options)}))"
    )


@compiles(among, "postgresql")
def _postgresql(element: among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = element.clauses
    of = "BIGINT" if column.type.python_type is int else "TEXT"
    return f"{compiler.process(column, **options)} = ANY ({compiler.process(values, **options)}::{of}[])"


def raw_rows(connection: Connection, query: Any, **values: Any) -> Sequence[tuple[Any, ...]]:
    """Return a query's rows in the driver's form: converting many rows takes the most time."""
    direct = direct_statements.rows(connection, query, values)
    if direct is not None:
        return direct
    result = connection.execute(query, values)
    rows: Sequence[tuple[Any, ...]] = result.cursor.fetchall() if result.cursor else ()
    # SQLAlchemy does not notice that the driver has returned all rows.
    result.close()
    return rows
