"""Parts of worlds: fields that are read together. Each step assembles its world from them.

A step declares its parts in order. A plain name means the field's usual reader in ``fields``. If only one
step reads a field, or reads it differently, it declares a part with another reader.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from pilotage.model.documents.world import World
from pilotage.model.records.unable_ways import UnableWay
from pilotage.store.files.known_inputs import KnownInputs
from pilotage.store.jobs.waiting import Parts
from pilotage.store.pilots.table import LivePilots
from pilotage.store.reader import RecordReader

ALWAYS = frozenset({"time", "seed", "federation", "queues_changed"})
"""Fields that every world has."""

EMPTY: Mapping[str, Any] = {
    field_.name: field_.default if field_.default_factory is MISSING else field_.default_factory()
    for field_ in fields(World)
    if field_.name not in ALWAYS
}
"""The values of fields that were not read."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of a step: its time (s since 1970, UTC), its random seed, and its maximum of records.

    It skips the tasks ``apart``, because the step failed with them. ``portions`` gives the number of jobs of
    each task, by default equal. It takes also pending jobs of ``pending_for_room`` tasks. This process cannot
    delete files at ``unable`` kinds of storages.
    """

    time: float
    seed: int
    batch: int
    apart: frozenset[int] = frozenset()
    portions: Parts | None = None
    pending_for_room: Set[int] = frozenset()
    unable: tuple[UnableWay, ...] = ()


@dataclass(slots=True)
class Reading:
    """A world during reading: over one connection, at one moment.

    ``world`` has the fields of every world. Get fields read so far by name, as in ``reading["jobs"]``.
    """

    reader: RecordReader
    now: Pass
    world: World
    live_pilots: LivePilots
    known_inputs: KnownInputs
    values: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        if name not in self.values:
            raise LookupError(f"{name!r} is not read yet: declare it before the part that needs it")
        return self.values[name]

    def get(self, name: str) -> Any:
        """Return a field's value; empty if it was not read."""
        return self.values.get(name, EMPTY[name])

    def add(self, part: "WorldPart", values: Mapping[str, Any]) -> None:
        """Add the values of a part. Raises LookupError for a field that it does not declare."""
        if undeclared := ", ".join(sorted(values.keys() - set(part.fields))):
            raise LookupError(f"a part of {part.fields} returned {undeclared}, which it does not declare")
        for name in part.fields:
            if name in values or name not in self.values:
                self.values[name] = values.get(name, EMPTY[name])


Read = Callable[[Reading], Mapping[str, Any] | None]
"""Reads the fields of a part. None means that the world needs no later parts."""


@dataclass(frozen=True, slots=True)
class WorldPart:
    """Fields of a world that are read together, and their reader. A field that it omits is empty."""

    fields: tuple[str, ...]
    read: Read

    def __post_init__(self) -> None:
        if unknown := [name for name in self.fields if name not in EMPTY]:
            raise ValueError(f"a world has no field {', '.join(unknown)}")


def part(*names: str) -> Callable[[Read], WorldPart]:
    """Return a decorator that turns a reading function into a part."""
    return lambda read: WorldPart(names, read)


def only_where(name: str) -> WorldPart:
    """Return a part that skips the following parts if a field is empty."""
    return WorldPart((), lambda reading: {} if reading[name] else None)
