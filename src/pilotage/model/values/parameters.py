"""Parameters of a task: named values, one row of them for each job, as a list of rows or as a grid."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from pilotage.model.values.parameter_bounds import (
    LONGEST_NAME,
    LONGEST_VALUE,
    MOST_BYTES,
    MOST_NAMES,
    MOST_ROWS,
)
from pilotage.model.values.placeholders import NAME, OWN

Rows = Sequence[Mapping[str, str]]
Grid = Mapping[str, Sequence[str]]

_NAME = re.compile(NAME)
_SCALAR = {"type": ["string", "number", "boolean"]}
_SCHEMA = {
    "anyOf": [
        {
            "type": "array",
            "maxItems": MOST_ROWS,
            "items": {"type": "object", "additionalProperties": _SCALAR},
        },
        {"type": "object", "additionalProperties": {"type": "array", "minItems": 1, "items": _SCALAR}},
    ]
}


def row_count(parameters: Rows | Grid) -> int:
    """Return the number of rows; 0 without parameters."""
    if isinstance(parameters, Mapping):
        return math.prod(map(len, parameters.values())) if parameters else 0
    return len(parameters)


def parameter_names(parameters: Rows | Grid) -> tuple[str, ...]:
    """Return the names of the parameters, in their order in the task."""
    if isinstance(parameters, Mapping):
        return tuple(parameters)
    return tuple(parameters[0]) if parameters else ()


def expanded_bytes(parameters: Rows | Grid) -> int:
    """Return the bytes of the values of all rows together."""
    if isinstance(parameters, Mapping):
        rows = row_count(parameters)
        return sum(rows // len(texts) * _bytes(texts) for texts in parameters.values())
    return sum(_bytes(row.values()) for row in parameters)


def _bytes(texts: Iterable[str]) -> int:
    return sum(len(text.encode()) for text in texts)


def values_of(parameters: Rows | Grid, name: str) -> set[str]:
    """Return the values that a parameter has in any row."""
    if isinstance(parameters, Mapping):
        return set(parameters[name])
    return {row[name] for row in parameters}


def row_at(parameters: Rows | Grid, number: int) -> dict[str, str]:
    """Return a row by its number, from 0. In a grid the last name changes fastest."""
    if not isinstance(parameters, Mapping):
        return dict(parameters[number])
    row: dict[str, str] = {}
    for name in reversed([*parameters]):
        number, at = divmod(number, len(parameters[name]))
        row[name] = parameters[name][at]
    return {name: row[name] for name in parameters}


def _read(parameters: Any) -> Rows | Grid:
    """Return parameters with every value as text. Raises PydanticCustomError in plain words."""
    if isinstance(parameters, Mapping):
        return _grid(parameters)
    if isinstance(parameters, str):
        raise _fault(f"{parameters[:60]!r} is a file, which only pilotage submit reads; give rows or a grid")
    if not isinstance(parameters, list | tuple):
        raise _fault("are neither rows nor a grid; give - {k: 21} for each row, or k: [21, 31]")
    if len(parameters) > MOST_ROWS:
        raise _fault(f"have {len(parameters)} rows, above {MOST_ROWS}; submit several tasks")
    if not parameters:
        return ()
    names: list[str] = []
    rows = []
    free_bytes = MOST_BYTES
    for number, row in enumerate(parameters):
        if not isinstance(row, Mapping):
            raise _fault(f"have a row {number} without names; give - {{k: 21}} for each row")
        names = names or _checked_names(row)
        if row.keys() != set(names):
            odd = next(iter(sorted(map(str, row.keys() ^ set(names)))))
            lacks = "lacks" if odd in names else "alone has"
            raise _fault(f"have a row {number} that {lacks} {odd[:60]!r}; give every row the same names")
        texts = {name: _text(row[name], f"row {number}, {name}") for name in names}
        free_bytes -= _bytes(texts.values())
        if free_bytes < 0:
            raise _fault(f"have more than {MOST_BYTES} bytes; submit several tasks")
        rows.append(texts)
    return tuple(rows)


def _grid(columns: Mapping[Any, Any]) -> Grid:
    if not columns:
        return {}
    for name in _checked_names(columns):
        if not isinstance(columns[name], list | tuple):
            raise _fault(f"give {name} no list of values; write {name}: [21, 31]")
        if not columns[name]:
            raise _fault(f"give {name} no values; give at least one")
    rows = math.prod(map(len, columns.values()))
    if rows > MOST_ROWS:
        sizes = " × ".join(str(len(values)) for values in columns.values())
        raise _fault(f"make {sizes} = {rows} rows, above {MOST_ROWS}; submit several tasks")
    grid = {
        name: tuple(_text(value, f"{name}[{at}]") for at, value in enumerate(values))
        for name, values in columns.items()
    }
    if sum(map(_bytes, grid.values())) > MOST_BYTES:
        raise _fault(f"have more than {MOST_BYTES} bytes; submit several tasks")
    return grid


def _checked_names(row: Mapping[Any, Any]) -> list[str]:
    if not row:
        raise _fault("have a row without names; give - {k: 21} for each row")
    if len(row) > MOST_NAMES:
        raise _fault(f"have {len(row)} names, above {MOST_NAMES}; leave some out")
    for name in row:
        if not isinstance(name, str) or len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
            rule = f"letters, digits and _, without a digit first, up to {LONGEST_NAME} characters"
            raise _fault(f"have a name {str(name)[:60]!r}; give {rule}")
        if name in OWN:
            raise _fault(f"have a name {name!r}, which every job has already; give another one")
    return [*row]


def _text(value: Any, place: str) -> str:
    """Return a value as a command will have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        value = str(value)
    if value is None:
        raise _fault(f"have no value at {place}; write '' for an empty one")
    if not isinstance(value, str):
        raise _fault(f"have no text or number at {place}; give one")
    if "\0" in value or len(value.encode()) > LONGEST_VALUE:
        raise _fault(
            f"have at {place} a null character, or more than {LONGEST_VALUE} bytes; give a plain value"
        )
    return value


def _fault(words: str) -> PydanticCustomError:
    # Braces are placeholders of the error's own template.
    return PydanticCustomError("parameters", "{words}", {"words": words})


Parameters = Annotated[Rows | Grid, PlainValidator(_read), WithJsonSchema(_SCHEMA)]
"""Rows, ``- {sample: a, k: 21}`` each, or a grid, ``k: [21, 31]``, whose rows are all combinations."""
