"""Worlds, federations, tasks and decisions as documents. The same value always gives the same bytes."""

import hashlib
import json
import threading
from dataclasses import MISSING, fields
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

T = TypeVar("T")


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


def given_json(record: Any) -> bytes:
    """Return compact JSON of a dataclass, without fields that equal their default.

    So the former version, which refuses fields that it does not know, reads records that need none of these.
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
