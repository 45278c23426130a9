"""What is left of a document without the parts that have faults: so further faults are told in one round."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from pilotage.model.documents.serialization import from_json

from .faults import Fault, Path

T = TypeVar("T")

ROUNDS = 10
"""How often records are taken away before the rest is given up."""

STAND_IN = "without-a-name"
"""The name of a document that has none."""


@dataclass(slots=True)
class Remainder(Generic[T]):
    """The rest as a record, and where the items of its lists stand in the document."""

    value: T
    places: dict[Path, list[int]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    """Words of records that were left out, their names among them; empty for one that has none."""

    def further(self, found: Iterable[Fault], known: Sequence[Fault]) -> Iterator[Fault]:
        """Yield faults of the rest at fields without a known fault, each at its place in the document."""
        paths = [fault.path for fault in known]
        for fault in found:
            place = self._place(fault.path)
            if not self._is_ours(fault) and not any(
                place[: len(path)] == path or path[: len(place)] == place for path in paths
            ):
                yield Fault(place, fault.message, fault.remedy, fault.line)

    def _is_ours(self, fault: Fault) -> bool:
        """Return whether a fault may be there only because records were left out."""
        missing = fault.message.startswith("there is no ") and not fault.remedy.startswith("did you mean")
        return any(repr(name) in fault.message if name else missing for name in self.names)

    def _place(self, path: Path) -> Path:
        place: Path = ()
        for part in path:
            items = self.places.get(place) if isinstance(part, int) else None
            place = (*place, items[part] if items and isinstance(part, int) and part < len(items) else part)
        return place


def remainder(kind: type[T], document: object, faults: Iterable[Fault]) -> Remainder[T] | None:
    """Take away the fields that have faults, then the records that need them; None where nothing is left."""
    try:
        # A deep copy, of which parts are taken away.
        rest = json.loads(json.dumps(document, allow_nan=False))
    except (ValueError, RecursionError):
        return None
    places: dict[Path, list[int]] = {}
    names: set[str] = set()
    for fault in faults:
        # A record's name may be what stands under a misspelt field.
        names.update(word for word in [_at(rest, fault.path)] if isinstance(word, str))
        _leave_out(rest, fault.path)
    for _ in range(ROUNDS):
        if not rest or rest == {"name": STAND_IN}:
            return None
        try:
            return Remainder(from_json(kind, json.dumps(rest), strict=True), places, names)
        except ValidationError as error:
            taken = {_record(rest, detail["loc"]) for detail in error.errors(include_url=False)}
            # From the end: what is taken away of a list moves what stands behind it.
            for path in sorted(taken, key=_order, reverse=True):
                _take(rest, path, places, names)
        except (ValueError, RecursionError):
            return None
    return None


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
    """The path of what must go for a fault at a place: the item or mapping that holds it."""
    path: list[int | str] = []
    here = document
    for part in location:
        inner = _at(here, (part,))
        if inner is None:
            break
        path.append(part)
        here = inner
    # A bad item goes by itself; a field that is missing, or wrong, takes its record along.
    while path and not isinstance(_at(document, tuple(path)), dict) and not isinstance(path[-1], int):
        path.pop()
    return tuple(path)


def _take(document: Any, path: Path, places: dict[Path, list[int]], names: set[str]) -> None:
    if not path:
        if isinstance(document, dict):
            document.setdefault("name", STAND_IN)
        return
    holder, gone = _at(document, path[:-1]), _at(document, path)
    words = [word for word in gone.values() if isinstance(word, str)] if isinstance(gone, dict) else []
    names.update(words or [""])
    if isinstance(holder, dict):
        holder.pop(path[-1], None)
    elif isinstance(holder, list) and isinstance(path[-1], int) and path[-1] < len(holder):
        # Lists within lists that lost items are met by no kind: the path of the list is that of the document.
        places.setdefault(path[:-1], list(range(len(holder))))
        del holder[path[-1]], places[path[:-1]][path[-1]]
