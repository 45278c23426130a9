"""Remove the faulty parts of a document, so that the rest can be checked in the same round."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from pilotage.federation.faults import Fault, Path
from pilotage.model.documents.serialization import from_json

T = TypeVar("T")

ROUNDS = 10
"""Most rounds of removing records before the check gives up."""

STAND_IN = "without-a-name"
"""A placeholder for a missing name."""

RECORDS = {
    "sites": {"name": STAND_IN},
    "storages": {"name": STAND_IN, "site": STAND_IN, "url": f"file:///{STAND_IN}"},
}
"""Placeholder records for lists that must not be empty."""


@dataclass(slots=True)
class Remainder(Generic[T]):
    """The rest as a record, and the original places of its lists' items."""

    value: T
    places: dict[Path, list[int]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    """Words of removed records, including their names; empty for one without a name."""

    def further(self, faults: Iterable[Fault], earlier: Sequence[Fault]) -> Iterator[Fault]:
        """Yield faults of the rest at fields without a known fault, with their places in the document."""
        paths = [fault.path for fault in earlier]
        for fault in faults:
            place = self._own_path(fault.path)
            if not self._is_ours(fault) and not any(
                place[: len(path)] == path or path[: len(place)] == place for path in paths
            ):
                yield Fault(place, fault.message, fault.remedy, fault.line)

    def _is_ours(self, fault: Fault) -> bool:
        """Return whether a fault may exist only because records were removed."""
        missing = fault.message.startswith("there is no ") and not fault.remedy.startswith("did you mean")
        return any(repr(name) in fault.message if name else missing for name in self.names)

    def _own_path(self, path: Path) -> Path:
        place: Path = ()
        for part in path:
            items = self.places.get(place) if isinstance(part, int) else None
            place = (*place, items[part] if items and isinstance(part, int) and part < len(items) else part)
        return place


def remainder(kind: type[T], document: object, faults: Iterable[Fault]) -> Remainder[T] | None:
    """Remove the faulty fields, then the records that need them. Return None if nothing is left."""
    try:
        # A deep copy, to remove parts from.
        rest = json.loads(json.dumps(document, allow_nan=False))
    except (ValueError, RecursionError):
        return None
    places: dict[Path, list[int]] = {}
    names: set[str] = set()
    for fault in faults:
        # The record's name may be the value of a misspelt field.
        names.update(word for word in [_at(rest, fault.path)] if isinstance(word, str))
        _leave_out(rest, fault.path)
    for _ in range(ROUNDS):
        if not rest or rest == {"name": STAND_IN}:
            return None
        try:
            return Remainder(from_json(kind, json.dumps(rest), strict=True), places, names)
        except ValidationError as error:
            details = error.errors(include_url=False)
            for detail in details:
                _stand_in(rest, detail, places, names)
            records = {_record(rest, detail["loc"]) for detail in details} - {()}
            # Go backwards: removing an item of a list moves the items after it.
            for path in sorted(records, key=_order, reverse=True):
                _take(rest, path, places, names)
        except (ValueError, RecursionError):
            return None
    return None


def _stand_in(rest: Any, fault: Any, places: dict[Path, list[int]], names: set[str]) -> None:
    """Add a missing name or list to the whole document. References into such a list cause no faults."""
    if fault["type"] not in ("missing", "too_short") or len(fault["loc"]) != 1 or not isinstance(rest, dict):
        return
    (lacking,) = fault["loc"]
    if lacking == "name":
        rest[lacking] = STAND_IN
    elif lacking in RECORDS:
        rest[lacking] = [dict(RECORDS[lacking])]
        places.pop((lacking,), None)
        names.update(("", STAND_IN))


def _order(path: Path) -> list[tuple[bool, int, str]]:
    return [(isinstance(part, int), part if isinstance(part, int) else 0, str(part)) for part in path]


def _leave_out(document: Any, path: Path) -> None:
    """Remove a field of a record."""
    holder = _at(document, path[:-1])
    if path and isinstance(holder, dict):
        holder.pop(path[-1], None)


def _at(document: Any, path: Path) -> Any:
    for part in path:
        try:
            document = document[part]
        except (LookupError, TypeError):
            return None
    return document


def _record(document: Any, location: Sequence[int | str]) -> Path:
    """Return the path of the item or mapping to remove for a fault at a place."""
    path: list[int | str] = []
    here = document
    for part in location:
        inner = _at(here, (part,))
        if inner is None:
            break
        path.append(part)
        here = inner
    # Remove a bad item alone. For a missing or wrong field, remove its record.
    while path and not isinstance(_at(document, tuple(path)), dict) and not isinstance(path[-1], int):
        path.pop()
    return tuple(path)


def _take(document: Any, path: Path, places: dict[Path, list[int]], names: set[str]) -> None:
    holder, gone = _at(document, path[:-1]), _at(document, path)
    words = [word for word in gone.values() if isinstance(word, str)] if isinstance(gone, dict) else []
    names.update(words or [""])
    if isinstance(holder, dict):
        holder.pop(path[-1], None)
    elif isinstance(holder, list) and isinstance(path[-1], int) and path[-1] < len(holder):
        # No kind has lists within lists that lose items, so the list's path equals the document's.
        places.setdefault(path[:-1], list(range(len(holder))))
        del holder[path[-1]], places[path[:-1]][path[-1]]
