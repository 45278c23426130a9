"""How the store keeps a field of a record, declared with the field."""

from enum import Enum, auto
from typing import Annotated, TypeVar

T = TypeVar("T")


class FieldMark(Enum):
    """What a field's type does not say of its column."""

    SETTABLE = auto()
    """A decision may set it."""
    LONG = auto()
    """It has 64 bits."""
    ELSEWHERE = auto()
    """It has no column that is read with the record. A reader gives another value than the default."""


Settable = Annotated[T, FieldMark.SETTABLE]
Elsewhere = Annotated[T, FieldMark.ELSEWHERE]
RecordId = Annotated[int, FieldMark.LONG]
"""The number of a record."""
Bytes = Annotated[int, FieldMark.LONG]
