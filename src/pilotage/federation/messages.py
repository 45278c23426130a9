"""Validation errors in plain words: which field is wrong, why, and what would be right."""

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import islice
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pilotage import request_budget
from pilotage.federation.faults import Fault, Path, show
from pilotage.model.documents.serialization import json_schema
from pilotage.model.records.inputs import InputDataset, InputFile, InputPattern, TaskOutputs
from pilotage.model.values.paths import FILE_NAME, PLAIN_NAME
from pilotage.model.values.types import OUTPUT_DATASET

LONGEST_WORD = 100
"""Characters that are compared: strangers choose the length, and to compare takes quadratic time."""

MOST_WORDS = 1000
"""Most words that one word is compared with; among more, there is no suggestion."""


def nearest(word: str, candidates: Collection[str], number: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the known words that resemble a word, the nearest first.

    Return none once the request's budget of suggestions is spent.

    Raises ``ClientGone`` or ``RequestTooLong``.
    """
    if not 0 < len(candidates) <= MOST_WORDS or not request_budget.takes_suggestion():
        return []
    return difflib.get_close_matches(word[:LONGEST_WORD], list(candidates), number, cutoff)


_UNITS = {
    "MB, 0 for no limit": "min_memory max_memory max_workdir",
    "MB": "memory ram base_ram work_disk out_disk",
    "GB": "free storage_min_free size_cutoff_to_move_input",
    "bytes": "size",
    "seconds, 0 for no limit": "min_walltime max_walltime walltime",
    "seconds": "base_time pilot_walltime pending_time retry_delay delivery_timeout ageing_timeout "
    "ageing_period lowest_cpu_boost max_cpu period heartbeat pilot_idle",
    "MB/s": "throughput_1h throughput_1d throughput_1w",
    "kB/s": "io_intensity io_intensity_cutoff",
    "kB/s per core": "disk_io max_disk_io max_diskio_default",
    "HS23 per core": "core_power",
    "HS23 seconds an event": "cpu_time",
    "a closeness from 0 (best) to 11, or -1 for blocked": "closeness",
    "a fraction from 0.001 to 1": "cpu_efficiency",
}
_ALSO_CALLED = {
    **dict.fromkeys(("match", "pattern", "patterns", "wildcard", "files"), "glob"),
    **dict.fromkeys(("path", "file", "lfn"), "name"),
    **dict.fromkeys(("storage", "storages"), "replicas"),
    "bytes": "size",
}
"""Words that people use for a field of an input."""

_INPUTS = {kind.__name__: kind for kind in (InputFile, InputPattern, InputDataset, TaskOutputs)}

_UNITS_BELOW = {"timeouts": "seconds", "retries": ""}
"""Units of all fields below some: retries are factors."""

_UNIT_OF = {name: unit for unit, names in _UNITS.items() for name in names.split()}

_PATTERNS = {
    "^[A-Za-z0-9][A-Za-z0-9_.:@+-]*$": "start with a letter or digit, then letters, digits and _.:@+-",
    f"^{FILE_NAME}$": (
        "give a relative path like data/part 1.txt, without control characters, empty parts, . and .."
    ),
    "^[A-Za-z0-9_][A-Za-z0-9_.+=~-]*(/[A-Za-z0-9_][A-Za-z0-9_.+=~-]*)*$": (
        "give a name like runs-2026 or runs/2026 of letters, digits and _.+=~-"
    ),
    f"^{PLAIN_NAME}$": "give a plain file name, without slashes and control characters, and neither . nor ..",
    f"^{FILE_NAME}/?$": (
        "give a relative path, with * ? [] or ** for what varies, {index} for the job, and a / at the end "
        "of a folder; without control characters, empty parts, . and .."
    ),
    "^(adler32:[0-9a-f]{8}|md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}|)$": (
        "give adler32: and 8, md5: and 32, or sha256: and 64 lower-case hexadecimal digits"
    ),
    OUTPUT_DATASET: (
        "give NAME, for a dataset in your own scope, or CATALOGUE~SCOPE:NAME of a catalogue that others "
        "keep, like rucio~user.ada:results"
    ),
    "^[a-z][a-z0-9+]*://": "give a URL like file:///data or https://host/path",
    "^(full|http|none)(#(IPv4|IPv6)?)?$": "give full, http or none, then #IPv4 or #IPv6 where it matters",
}

_KINDS = {
    "int_type": ("is not a whole number", "give digits, without quotes"),
    "float_type": ("is not a number", "give a number, without quotes"),
    "finite_number": ("is not a finite number", "give a finite number"),
    "int_parsing": ("is not a whole number", "give digits"),
    "int_parsing_size": ("is too large", "give a smaller number"),
    "list_type": ("is not a list", "give a list"),
    "model_attributes_type": ("is not a mapping", "give fields as name: value"),
    "bool_type": ("is neither true nor false", "give true or false"),
    "string_type": ("is not text", "put it in quotes"),
    "string_unicode": ("is not text in UTF-8", "rename it"),
    "tuple_type": ("is not a list", "give a list, [one, two] or one a line after a dash"),
    "dict_type": ("is not a mapping", "give fields as name: value"),
    "dataclass_type": ("is not a mapping", "give fields as name: value"),
}


def faults(kind: Any, error: ValidationError, document: Any) -> Iterator[Fault]:
    """Yield every fault of a document that was refused as a ``kind``, each once."""
    reported: set[tuple[Path, str]] = set()
    located = [
        (details, *_document_path(details["loc"], document))
        for details in error.errors(include_url=False, include_context=True)
    ]
    typed = {path for details, path, _ in located if not _is_of_type(details)}
    for details, path, tags in located:
        # pydantic reports faults against every member of a union. Leave out faults against the wrong members.
        if any(tag != _input_kind(document, path) for tag in tags) or _only_bad_items(details):
            continue
        if _is_of_type(details) and path in typed:
            continue  # another member takes such values, and its fault is better
        if details["type"] == "literal_error" and details["ctx"]["expected"] == "''":
            continue
        fault = _fault(kind, details, path, document)
        if (fault.path, fault.message) not in reported:
            reported.add((fault.path, fault.message))
            yield fault


def of_request(details: Any) -> Fault:
    """Return a fault of a request's parameters or body, without naming the part of the request."""
    path = tuple(details["loc"][1:])
    if details["type"] == "extra_forbidden":
        return Fault(path, "there is no such field", "leave it out")
    return _fault(None, details, path, None)


def unknown_field(path: Path, known_fields: Iterable[str]) -> Fault:
    """Return the fault of an unknown field, with the nearest known one."""
    names = sorted(known_fields)
    word = str(path[-1])
    near = [*_meant_by(word, names)] or nearest(word, names)
    if near:
        remedy = f"did you mean {near[0]}?"
    elif len(names) > 15:
        remedy = "pilotage schema lists the fields"
    else:
        remedy = f"known: {', '.join(names)}" if names else "leave it out"
    return Fault(path, "there is no such field", remedy)


def _document_path(location: tuple[int | str, ...], document: Any) -> tuple[Path, list[str]]:
    """Return the path in the document, and the union members that pydantic inserted in it."""
    path: list[int | str] = []
    tags: list[str] = []
    here = document
    for part in location:
        if _has(here, part):
            here = here[part]
        elif part in _INPUTS:
            tags.append(str(part))
            continue
        elif part == "[key]" or not isinstance(here, dict | list):
            # A plain value has no parts, so this names a union member.
            continue
        path.append(part)
    return tuple(path), tags


def _has(value: Any, part: int | str) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, dict) and part in value


def _is_of_type(details: ErrorDetails) -> bool:
    return details["type"].endswith("_type")


def _only_bad_items(details: ErrorDetails) -> bool:
    """Return whether a list is too short only because of faulty items. These have their own faults."""
    items = details["input"]
    return details["type"] == "too_short" and len(items) >= details["ctx"]["min_length"]


def _input_kind(document: Any, path: Path) -> str:
    """Return the kind of input that the user means.

    It is a pattern with ``glob``, a dataset with ``dataset``, and a file with ``name``. Without these, it is
    the kind with the most similar fields.
    """
    here = document
    for part in path[: path.index("inputs") + 2]:
        here = here[part]
    if not isinstance(here, dict):
        return "InputFile"
    kinds = {"dataset": InputDataset, "glob": InputPattern, "task": TaskOutputs, "name": InputFile}
    kind_by_key = next((kind for key, kind in kinds.items() if key in here), None)
    return (kind_by_key or max(_INPUTS.values(), key=lambda kind: _likeness(kind, here))).__name__


def _likeness(kind: type[Any], document: Mapping[str, Any]) -> int:
    """Count the document's fields that a kind of input has, or that resemble one of its fields."""
    names = [part.name for part in fields(kind)]
    words = [str(word) for word in islice(document, len(names))]
    return sum(any(_meant_by(word, names)) or bool(nearest(word, names)) for word in words)


def _meant_by(word: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the field of an input that people call by this other word."""
    if "scope" in names:
        yield from (name for name in names if name == _ALSO_CALLED.get(word))


def _fault(kind: Any, details: ErrorDetails, path: Path, document: Any) -> Fault:
    code = details["type"]
    if code in ("unexpected_keyword_argument", "extra_forbidden"):
        return unknown_field(path, _fields_at(kind, path[:-1], document))
    if code in ("missing", "missing_keyword_only_argument"):
        return Fault(path, "is missing", _add(path))
    unit = _unit(path)
    if code in _BOUNDS:
        key, word, remedy = _BOUNDS[code]
        bound = _number(details["ctx"][key])
        remedy = f"give {unit or remedy.format(bound)}"
        if path[-1] == "jobs" and code == "less_than_equal":
            remedy = "submit several tasks"
        return Fault(path, f"{show(details['input'])} {word} {bound}", remedy)
    if code in _WORDED:
        return _WORDED[code](details, path)
    message, remedy = _KINDS.get(code, (details["msg"][:1].lower() + details["msg"][1:], ""))
    if code in ("int_type", "float_type") and unit:
        remedy = f"give {unit}, without quotes"
    return Fault(path, f"{show(details['input'])} {message}" if code in _KINDS else message, remedy)


_BOUNDS = {
    "greater_than_equal": ("ge", "is below", "{} or more"),
    "greater_than": ("gt", "is not above", "more than {}"),
    "less_than_equal": ("le", "is above", "at most {}"),
    "less_than": ("lt", "is not below", "less than {}"),
}


def _choice(details: ErrorDetails, path: Path) -> Fault:
    expected = str(details["ctx"]["expected"]).replace("'", "")
    choices = expected.replace(" or ", ", ").split(", ")
    near = nearest(str(details["input"]), choices)
    message = f"{show(details['input'])} is none of {', '.join(choices)}"
    return Fault(path, message, f"did you mean {near[0]}?" if near else "give one of them")


def _pattern(details: ErrorDetails, path: Path) -> Fault:
    pattern = str(details["ctx"]["pattern"])
    remedy = _PATTERNS.get(pattern, f"give text that matches {pattern}")
    # A broken URL may have a password anywhere.
    secret = str(path[-1]).endswith("url") and "@" in str(details["input"])
    value = "this" if secret else show(details["input"])
    return Fault(path, f"{value} is not allowed here", remedy)


def _short(details: ErrorDetails, path: Path) -> Fault:
    least = details["ctx"]["min_length"]
    return Fault(path, "is empty", f"give at least {least}")


def _long(details: ErrorDetails, path: Path) -> Fault:
    limit = details["ctx"]["max_length"]
    return Fault(path, f"is longer than {limit} characters", "give a shorter one")


_WORDED: dict[str, Callable[[ErrorDetails, Path], Fault]] = {
    "literal_error": _choice,
    "enum": _choice,
    "string_pattern_mismatch": _pattern,
    "too_short": _short,
    "string_too_short": _short,
    "string_too_long": _long,
}


def _unit(path: Path) -> str:
    if len(path) > 1 and path[-2] in _UNITS_BELOW:
        return _UNITS_BELOW[str(path[-2])]
    return _UNIT_OF.get(str(path[-1]), "") if path else ""


def _add(path: Path) -> str:
    return f"add {path[-1]}:" if path else ""


def _number(bound: Any) -> str:
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def _fields_at(kind: Any, path: Path, document: Any) -> set[str]:
    """Return the fields that a record may have at this place, by the published schema."""
    schema = _schema(kind)
    nodes = _members(schema, schema)
    for part in path:
        inner = [_inside(node, part) for node in nodes]
        nodes = [member for node in inner for member in _members(node, schema)]
    nodes = [node for node in nodes if "properties" in node]
    if len(nodes) > 1:
        nodes = [node for node in nodes if node.get("title") == _input_kind(document, path)]
    return {name for node in nodes for name in node["properties"]}


_schema = cache(json_schema)


def _inside(node: dict[str, Any], part: int | str) -> Any:
    if isinstance(part, int):
        return node.get("items")
    return node.get("properties", {}).get(part) or node.get("additionalProperties")


def _members(node: Any, schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schemas behind a schema: the one it refers to, and each member of a union."""
    if not isinstance(node, dict):
        return []
    if "$ref" in node:
        return _members(schema["$defs"][node["$ref"].rpartition("/")[2]], schema)
    if "anyOf" in node:
        return [member for part in node["anyOf"] for member in _members(part, schema)]
    return [node]
