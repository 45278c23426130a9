"""Ways between storages that a server cannot move files over because it lacks a package."""

from collections.abc import Iterable
from dataclasses import dataclass

from pilotage.model.records.federation import Storage
from pilotage.model.values.types import DESCRIBED


@dataclass(frozen=True, slots=True, kw_only=True)
class UnableWay:
    """Two kinds of storages that a server cannot connect: it lacks a mover, or an adapter of the service."""

    __pydantic_config__ = DESCRIBED

    source: str
    """URL scheme of the source."""
    destination: str
    """URL scheme of the destination."""
    service: str = ""
    """Kind of the transfer service for the files; empty: none."""
    reason: str
    """What the server lacks."""


def undeletable(storages: Iterable[Storage], unable: Iterable[UnableWay]) -> frozenset[str]:
    """Return the storages where a server cannot delete files: it has no mover for their URL scheme."""
    schemes = _schemes(unable)
    return frozenset(storage.name for storage in storages if storage.url.partition("://")[0] in schemes)


def iteration_name(step: str, unable: Iterable[UnableWay]) -> str:
    """Return the name of a step's iterations at servers that lack the same."""
    lacking = sorted(_schemes(unable))
    return f"{step} without {', '.join(lacking)}" if lacking else step


def _schemes(unable: Iterable[UnableWay]) -> set[str]:
    return {pair.source for pair in unable if pair.source == pair.destination and not pair.service}


Way = tuple[str, str, str]
"""URL schemes of source and destination, and the kind of the service between them."""


def way_of(source: Storage, destination: Storage) -> Way:
    """Return the kind of way between two storages."""
    service = destination.transfer_service or source.transfer_service
    schemes = (storage.url.partition("://")[0] for storage in (source, destination))
    return (*schemes, service.kind if service else "")  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class UnableWays:
    """The ways that a server cannot use, between the storages of a federation by name."""

    storages: dict[str, Storage]
    reasons: dict[Way, str]

    @classmethod
    def of(cls, storages: Iterable[Storage], unable: Iterable[UnableWay]) -> "UnableWays":
        """Return the ways between these storages."""
        reasons = {(pair.source, pair.destination, pair.service): pair.reason for pair in unable}
        return cls({storage.name: storage for storage in storages}, reasons)

    def reason(self, source: str, destination: str) -> str:
        """Return what the server lacks between two storages; empty if nothing, or if one is unknown."""
        ends = self.storages.get(source), self.storages.get(destination)
        return self.reasons.get(way_of(ends[0], ends[1]), "") if self.reasons and ends[0] and ends[1] else ""
