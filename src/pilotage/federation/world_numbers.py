"""Check the numbers of a world in fields without bounds: they must be finite and within general bounds."""

import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pilotage.federation.faults import Fault, Path
from pilotage.model.documents.world import World
from pilotage.model.values.types import SMALLEST, FieldMark

LARGEST = 10**15
"""The largest number of a world."""

_BOUNDS = f"not within -{LARGEST} to {LARGEST}, or nearer to 0 than {SMALLEST}"


def faults(world: World) -> Iterator[Fault]:
    """Yield numbers that no policy can use, record by record."""
    yield from _of_record(world, ())


def _of_record(record: object, path: Path) -> Iterator[Fault]:
    kind: Any = type(record)
    for name in _loose(kind):
        yield from _of_value(getattr(record, name), (*path, name))


def _of_value(value: object, path: Path) -> Iterator[Fault]:
    if value is None or isinstance(value, bool | str):
        return
    if isinstance(value, int | float):
        # This form of the condition refuses NaN too.
        if not -LARGEST <= value <= LARGEST or 0 < abs(value) < SMALLEST:
            yield Fault(path, f"{value} is {_BOUNDS}", "")
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _of_value(part, (*path, name))
    elif isinstance(value, list | tuple):
        for at, part in enumerate(value):
            yield from _of_value(part, (*path, at))
    elif is_dataclass(value):
        yield from _of_record(value, path)


@cache
def _loose(kind: Any) -> tuple[str, ...]:
    """Return the fields of a record that may contain numbers and declare no bounds."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(field.name for field in fields(kind) if _is_loose(hints[field.name]))


def _is_loose(hint: Any) -> bool:
    if hint in (int, float, Any):
        return True
    if get_origin(hint) is Annotated:
        kind, *marks = get_args(hint)
        # A field with bounds is checked when it is read. A mark of its column is no bound.
        is_unbounded = is_dataclass(kind) or all(isinstance(mark, FieldMark) for mark in marks)
        return is_unbounded and _is_loose(kind)
    if get_origin(hint) in (types.UnionType, Union, tuple, list, Mapping) or get_args(hint):
        return any(map(_is_loose, get_args(hint)))
    record: Any = hint
    return is_dataclass(hint) and bool(_loose(record))
