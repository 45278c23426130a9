"""Storages that rest because delivery after delivery failed there, through no fault of the files (F4)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from .constants import StagingConstants
from .failing_places import followed
from .types import DESCRIBED

End = tuple[str, str]
"""The storage at which deliveries fail, as their source or their destination; both: between these two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDelivery:
    """A delivery that failed, and not because of its file."""

    __pydantic_config__ = DESCRIBED

    transfer: int
    """The transfer."""
    attempt: int
    """Its attempt."""
    file: str
    """The file."""
    source: str
    """The storage that could not be read; empty: the destination alone is to blame."""
    destination: str
    """The storage that could not be written; empty: the source alone is to blame."""
    time: float
    """When it failed, in s since 1970."""
    error: str
    """Why, in one line."""

    @property
    def end(self) -> End:
        """Where it failed."""
        return self.source, self.destination


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRest:
    """A storage from which, or to which, nothing is moved until a time, in s since 1970; or both: a pair.

    After that one delivery tries. ``failures`` counts those in a row, ``error`` is that of the last.
    """

    source: str
    destination: str
    since: float
    until: float
    failures: int
    error: str

    @property
    def end(self) -> End:
        """Where deliveries failed."""
        return self.source, self.destination

    @property
    def forgotten(self) -> float:
        """When its failures count no more although nobody tried, in s since 1970."""
        return self.until + (self.until - self.since)

    @property
    def what(self) -> str:
        """Name what rests."""
        if self.source and self.destination:
            return f"moving from {self.source} to {self.destination}"
        return f"reading from {self.source}" if self.source else f"writing to {self.destination}"

    @property
    def text(self) -> str:
        """What rests until when, and why."""
        until = datetime.fromtimestamp(self.until, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        failed = f"{self.failures} failed in a row, the last with: {self.error}"
        return f"{self.what} rests until {until}: {failed}"

    def concerns(self, source: str, destination: str) -> bool:
        """Tell whether it concerns what is moved between two storages."""
        return self.source in ("", source) and self.destination in ("", destination)


def storage_rests(
    failed: Iterable[FailedDelivery], constants: StagingConstants, time: float
) -> tuple[StorageRest, ...]:
    """Return what rests, or rested and is to be tried, at a time in s since 1970; by name.

    Deliveries of ``failing_files`` different files fail in a row before that, so that nobody's broken file
    closes a storage to others. A row of which no more is heard is forgotten, as long after its rest as that
    took.
    """
    rows: dict[End, list[FailedDelivery]] = defaultdict(list)
    for one in sorted(failed, key=lambda one: (one.time, one.transfer, one.attempt)):
        rows[one.end].append(one)
    found = (_rest(end, row, constants) for end, row in sorted(rows.items()))
    return tuple(rest for rest in found if rest is not None and time < rest.forgotten)


def resting_at(rests: Sequence[StorageRest], time: float) -> tuple[StorageRest, ...]:
    """Return the rests that are not over."""
    return tuple(rest for rest in rests if time < rest.until)


def _rest(end: End, row: list[FailedDelivery], constants: StagingConstants) -> StorageRest | None:
    files: set[str] = set()

    def enough(_: int, failure: FailedDelivery) -> bool:
        files.add(failure.file)
        return len(files) >= constants.failing_files

    found = followed(row, enough, constants.storage_rest_after)
    if found is None:
        return None
    return StorageRest(
        source=end[0],
        destination=end[1],
        since=found.since,
        until=found.until,
        failures=found.failures,
        error=found.last.error,
    )
