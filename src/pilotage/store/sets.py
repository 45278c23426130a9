"""Conditions over thousands of values in one parameter, the same for both databases."""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Dialect, String, Text, bindparam
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NullType, TypeDecorator, TypeEngine


class Values(TypeDecorator[list[Any]]):
    """Many values as one parameter: JSON text on SQLite, an array on PostgreSQL."""

    impl = Text
    cache_ok = True

    def __init__(self, numbers: bool) -> None:
        super().__init__()
        self.numbers = numbers

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The type that the driver is given."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(Text())
        return dialect.type_descriptor(ARRAY(BigInteger() if self.numbers else String()))

    def process_bind_param(self, value: Iterable[Any] | None, dialect: Dialect) -> Any:
        """The values as the driver wants them."""
        values = list(value or ())
        return json.dumps(values) if dialect.name == "sqlite" else values


class among(FunctionElement[Any]):  # noqa: N801 -- reads as a function in a query
    """``among(column, "ids")``: the column's value is one of those bound to the parameter ``ids``."""

    name = "among"
    # A Boolean would be compared with 1 on SQLite, which then uses no index.
    type: TypeEngine[Any] = NullType()
    inherit_cache = True

    def __init__(self, column: ColumnElement[Any], parameter: str) -> None:
        numbers = column.type.python_type is int
        super().__init__(column, bindparam(parameter, type_=Values(numbers)))


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
    return f"{compiler.process(column, **options)} = ANY ({compiler.process(values, **options)})"
