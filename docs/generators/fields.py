"""The page on the fields of federation, task and scenario files, by their place in the file."""

import dataclasses
import enum
import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from generators.markdown import first_paragraph, plain, table
from pilotage.model.documents.serialization import json_schema
from pilotage.model.records.federation import Federation
from pilotage.model.records.work import TaskSpec
from pilotage.simulation.scenario import Scenario

FILES = {"Federation file": Federation, "Task file": TaskSpec, "Scenario file": Scenario}
PLAIN = {str: "text", int: "whole number", float: "number", bool: "yes or no", Any: "any value"}


class Part(NamedTuple):
    """A record of a file: the heading that describes it, and the keys that lead to it."""

    heading: str
    keys: tuple[str, ...]
    record: Any


def fields_of_files() -> str:
    """Every field of federation, task and scenario files with its default."""
    head = (
        "# Fields of federation, task and scenario files\n\n"
        "A heading is a place in the file: `queues.computing_element` is the key `computing_element` in an "
        "entry of `queues`.\n\n"
        "Units: memory and work directory in MB, storage in GB, files in bytes, times in s, "
        "throughput in MB/s, core power in HS23 per core.\n"
    )
    parts: dict[Any, Part] = {}
    for heading, record in FILES.items():
        _collect(Part(heading, (), record), parts)
    return head + "".join(_section(part, parts) for part in parts.values())


def _collect(part: Part, parts: dict[Any, Part]) -> None:
    """Add a record, and those of its fields that are not there yet, in the order of the fields."""
    if part.record in parts:
        return
    parts[part.record] = part
    for name, hint in get_type_hints(part.record).items():
        records = list(_records(hint))
        for record in records:
            keys = (*part.keys, name)
            which = f" ({_variant(record)})" if len(records) > 1 else ""
            heading = f"`{'.'.join(keys)}`{which}"
            taken = record not in parts and heading in {part.heading for part in parts.values()}
            _collect(Part(f"{heading} of a scenario" if taken else heading, keys, record), parts)


def _records(hint: Any) -> Iterator[Any]:
    if dataclasses.is_dataclass(hint):
        yield hint
    for inner in get_args(hint):
        yield from _records(inner)


def _variant(record: Any) -> str:
    """The required field that tells a record from the others in its place."""
    return ", ".join(
        f"`{field.name}`"
        for field in dataclasses.fields(record)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )


def _section(part: Part, parts: Mapping[Any, Part]) -> str:
    hints = get_type_hints(part.record)
    described = json_schema(part.record)["properties"]
    rows = [
        (
            f"`{field.name}`",
            first_paragraph(described[field.name]["description"]),
            _type(hints[field.name], parts),
            _default(field),
        )
        for field in dataclasses.fields(part.record)
    ]
    level = "###" if part.keys else "##"
    about = plain(inspect.getdoc(part.record) or "")
    return f"\n{level} {part.heading}\n\n{about}\n\n" + table(
        ("field", "what it is", "type", "default"), rows
    )


def _type(hint: Any, parts: Mapping[Any, Part]) -> str:
    """A type in users' words, with links to the records that it holds."""
    origin, arguments = get_origin(hint), [one for one in get_args(hint) if one not in (type(None), ...)]
    if hint in parts:
        return f"[{parts[hint].heading}](#{_anchor(parts[hint].heading)})"
    if origin is Literal:
        return " or ".join(f"`{one}`" for one in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(one, parts) for one in arguments if one != Literal[""])
    if origin in (tuple, Sequence):
        return f"list of {_type(arguments[0], parts)}"
    if origin is Mapping:
        return f"mapping to {_type(arguments[1], parts)}"
    return PLAIN[hint]


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-").translate(dict.fromkeys(map(ord, "`.(),")))


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING or isinstance(field.default, enum.Enum):
        return "its own defaults" if dataclasses.is_dataclass(field.default_factory) else "empty"
    if field.default is dataclasses.MISSING:
        return "**required**"
    return _shown(field.default)


def _shown(value: Any) -> str:
    """A default as a file has it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value in ("", ()):
        return "empty"
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    if dataclasses.is_dataclass(value):
        return "its own defaults"
    return f"`{value}`"
