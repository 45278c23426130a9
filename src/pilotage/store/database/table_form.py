"""How PostgreSQL creates tables: texts ordered by character, columns by width, and vacuums more often.

SQLite orders texts by character anyway. PostgreSQL would use a language, which takes longer, and an index of
it finds no prefix. Importing this module is enough.
"""

import re
from typing import Any

from sqlalchemy import BigInteger, Boolean, Double, Integer, String
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateColumn, CreateTable
from sqlalchemy.types import TypeEngine

from pilotage.store.database.columns import metadata

_TEXT = re.compile(" (VARCHAR|TEXT)")
_VACUUMED = "WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)"
"""A job leaves as many dead rows as it has states. By default a fifth of a table may be dead rows."""


@compiles(CreateColumn, "postgresql")
def _ordered_by_character(create: CreateColumn, compiler: Any, **options: Any) -> str:
    """Return the column's declaration."""
    words = str(compiler.visit_create_column(create, **options))
    is_text = isinstance(create.element.type, String) and create.element.table.metadata is metadata
    return _TEXT.sub(r' \1 COLLATE "C"', words, count=1) if is_text else words


@compiles(CreateTable, "postgresql")
def _ordered_by_width(create: CreateTable, compiler: Any, **options: Any) -> str:
    """Return the table's declaration. A wide number after a narrow one or a text would begin after a gap."""
    if create.element.metadata is not metadata:
        return str(compiler.visit_create_table(create, **options))
    create.columns.sort(key=lambda column: _place(column.element.type))
    return f"{compiler.visit_create_table(create, **options).rstrip()} {_VACUUMED}"


def _place(type_: TypeEngine[Any]) -> int:
    order = (BigInteger, Double, Integer, Boolean)
    return next((place for place, kind in enumerate(order) if isinstance(type_, kind)), len(order))
