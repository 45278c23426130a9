"""Worlds, federations, tasks and decisions as documents. The same value always gives the same bytes."""

import hashlib
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from itertools import islice
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

T = TypeVar("T")

PIECE = 1000
"""Most records of a field in one piece of a document."""


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


_BUILDING = threading.Lock()
"""Held while an adapter is built. Each is built once, because the largest take a MiB."""


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        with _BUILDING:
            if kind not in _ADAPTERS:
                adapter = TypeAdapter(kind)
                adapter.rebuild()  # of those that are made at first use
                _ADAPTERS[kind] = adapter
    return _ADAPTERS[kind]


def to_document(value: object) -> Any:
    """Return plain lists, dictionaries, strings and numbers."""
    return _adapter(type(value)).dump_python(value, mode="json")


def from_document(kind: type[T], document: object) -> T:
    """Return a checked record. Raises ``pydantic.ValidationError`` with the place of every fault."""
    return cast(T, _adapter(kind).validate_python(document))


def from_json(kind: type[T], text: str | bytes, strict: bool = False) -> T:
    """Return a checked record from JSON text. ``strict`` accepts no text or boolean for a number, nor the
    reverse.

    Raises ``pydantic.ValidationError``.
    """
    return cast(T, _adapter(kind).validate_json(text, strict=strict or None))


def to_json(value: object) -> bytes:
    """Return compact JSON, with fields in the order of the record."""
    return _adapter(type(value)).dump_json(value)


def json_pieces(record: Any) -> Iterator[bytes]:
    """Yield what ``to_json`` returns for a dataclass, in pieces, at most ``PIECE`` records of a field each.

    A field of many records may be anything that can be iterated over once.
    """
    adapter, before = _adapter(type(record)), b"{"
    for field in fields(record):
        value, empty = getattr(record, field.name), f'"{field.name}":['.encode()
        are_many = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
        chunks = _chunks(value) if are_many else iter([value])
        yield before
        for number, chunk in enumerate(chunks):
            text = adapter.dump_json(replace(record, **{field.name: chunk}), include={field.name})[1:-1]
            yield text if not are_many else text[:-1] if number == 0 else b"," + text[len(empty) : -1]
        before = b"]," if are_many else b","
    yield before[:-1] + b"}"


def _chunks(records: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield records in chunks, the first one even if it is empty."""
    iterator = iter(records)
    chunk = tuple(islice(iterator, PIECE))
    yield chunk
    while chunk := tuple(islice(iterator, PIECE)):
        yield chunk


def given_json(record: Any) -> bytes:
    """Return compact JSON of a dataclass, without fields that equal their default.

    So an older release, which refuses unknown fields, can read records that do not use new ones.
    """
    names = {
        field.name
        for field in fields(record)
        if field.default_factory is not MISSING or getattr(record, field.name) != field.default
        if field.default_factory is MISSING or getattr(record, field.name) != field.default_factory()
    }
    return _adapter(type(record)).dump_json(record, include=names)


def declared_digest(value: object) -> str:
    """Return a digest of what a record declares. Values equal to their default do not count.

    So it stays the same if a later release adds fields.
    """
    text = _adapter(type(value)).dump_json(value, exclude_defaults=True)
    return hashlib.sha256(text).hexdigest()


def canonical_json(value: object) -> str:
    """Return indented JSON with sorted keys: byte for byte the same for the same value."""
    return json.dumps(to_document(value), indent=2, sort_keys=True, ensure_ascii=False)


def json_schema(kind: type[Any]) -> dict[str, Any]:
    """Return the published JSON Schema (draft 2020-12) of a document."""
    return _adapter(kind).json_schema()


def schema_text(kind: type[Any]) -> str:
    """Return the schema as published: byte for byte the same everywhere."""
    return json.dumps(json_schema(kind), indent=1) + "\n"
