"""Convert records of the wire format to JSON text and back. Parsing checks values against the records' types.

It ignores unknown fields, so the sender may be newer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


class WireError(ValueError):
    """A document is malformed; the message names the place."""


def serialise(record: Any, without: Collection[str] = ()) -> bytes:
    """Return the JSON text of a record, ``without`` some fields and without fields that have their default.

    An earlier server refuses a field that it does not know. An empty field can be left out for it.
    """

    def changed_fields(part: Any) -> dict[str, Any]:
        defaults = _defaults(part.__class__)
        return {
            name: value
            for name, value in vars(part).items()
            if name not in without and (name not in defaults or value != defaults[name])
        }

    # ``asdict`` takes ten times as long because it copies every value.
    return json.dumps(record, default=changed_fields, separators=(",", ":")).encode()


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    return {field.name: field.default for field in fields(kind) if field.default is not MISSING}


def parse(kind: type[T], text: bytes) -> T:
    """Read a record from JSON text. Raises WireError."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise WireError(f"not JSON: {error}") from error
    try:
        return cast(T, _checker(cast(Any, kind))(document))
    except WireError as error:
        raise WireError(f"{kind.__name__}{error}") from None


Checker = Callable[[Any], Any]
"""Return a checked and converted value. Raises WireError, whose message begins with the place inside the
value."""


@cache
def _checker(kind: Any) -> Checker:
    """Return the checker of a type. It is made once, because an answer may have thousands of values."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: value
    if is_dataclass(kind):
        return _record(kind)
    if origin is tuple:
        return _tuple(inner)
    if origin is Union:
        checker = _checker(inner[0])
        return lambda value: None if value is None else checker(value)
    return _scalar(kind) if origin is None else _mapping(_checker(inner[1]))


def _scalar(kind: Any) -> Checker:
    def check(value: Any) -> Any:
        if type(value) is kind:
            return value
        # JSON has one kind of number, and Python counts booleans as numbers.
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        raise WireError(f": {value!r:.80} is not of type {kind.__name__}")

    return check


def _record(kind: Any) -> Checker:
    hints = get_type_hints(kind)
    members = [
        (
            *(field.name, hints[field.name], _checker(hints[field.name])),
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(kind)
    ]

    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            raise WireError(f": {value!r:.80} is not an object")
        values = {}
        for name, kind_of_value, checked, needed in members:
            if name in value:
                # Most values already have the right type, and save the call.
                part = value[name]
                values[name] = part if type(part) is kind_of_value else _at(f".{name}", checked, part)
            elif needed:
                raise WireError(f".{name} is missing")
        return kind(**values)

    return check


def _mapping(inner: Checker) -> Checker:
    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            raise WireError(f": {value!r:.80} is not an object")
        return {name: _at(f".{name}", inner, part) for name, part in value.items()}

    return check


def _tuple(inner: tuple[Any, ...]) -> Checker:
    """Return the checker of a list: of any length, or with a type for each part."""
    parts = [_checker(kind) for kind in inner if kind is not Ellipsis]
    like = inner[-1] is Ellipsis

    def check(value: Any) -> Any:
        if not isinstance(value, list):
            raise WireError(f": {value!r:.80} is not a list")
        if not like and len(value) != len(parts):
            raise WireError(f": has {len(value)} parts, should have {len(parts)}")
        checks = parts * len(value) if like else parts
        try:
            return tuple([checked(part) for checked, part in zip(checks, value)])
        except WireError:
            return tuple(_at(f"[{place}]", *both) for place, both in enumerate(zip(checks, value)))

    return check


def _at(place: str, checked: Checker, value: Any) -> Any:
    try:
        return checked(value)
    except WireError as error:
        raise WireError(f"{place}{error}") from None
