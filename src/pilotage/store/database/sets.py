"""Conditions over thousands of values in one parameter, the same for both databases."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Dialect, Text, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NullType, TypeDecorator, TypeEngine

from . import bulk, direct_statements


class Values(TypeDecorator[list[Any]]):
    """Many values as one parameter: JSON text on SQLite, the literal of an array on PostgreSQL."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The type that the driver is given; of an array it is not told, it stands in the statement."""
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else NullType())

    def process_bind_param(self, value: Iterable[Any] | None, dialect: Dialect) -> Any:
        """The values as the driver wants them."""
        values = list(value or ())
        return json.dumps(values) if dialect.name == "sqlite" else bulk.array(values)


class among(FunctionElement[Any]):  # noqa: N801 -- reads as a function in a query
    """``among(column, "ids")``: the column's value is one of those bound to the parameter ``ids``."""

    name = "among"
    # A Boolean would be compared with 1 on SQLite, which then uses no index.
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
    """The rows of a query as the driver has them: of many rows, making more of each takes the most time."""
    direct = direct_statements.rows(connection, query, values)
    if direct is not None:
        return direct
    result = connection.execute(query, values)
    rows: Sequence[tuple[Any, ...]] = result.cursor.fetchall() if result.cursor else ()
    # The rows were taken from the driver behind SQLAlchemy's back: it does not see that they are exhausted.
    result.close()
    return rows
