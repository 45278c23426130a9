"""Storages that are paused because delivery after delivery failed there, through no fault of the files
(F4)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pilotage.model.values.types import DESCRIBED

from .constants import StagingConstants
from .failing_places import followed

End = tuple[str, str]
"""The storage where deliveries fail, as their source or their destination; both: between these two."""


LONGEST_ERROR = 200
"""Most characters kept of an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDelivery:
    """A delivery that failed, and not because of its file.

    A mover delivered it, or a pilot read or wrote it.
    """

    __pydantic_config__ = DESCRIBED

    transfer: int = 0
    """The transfer; 0: a pilot read or wrote the file."""
    job: int = 0
    """The job whose pilot read or wrote it; 0: a mover delivered it."""
    attempt: int
    """Attempt of the transfer, or of the job."""
    task: int = 0
    """The job's task; 0: a mover delivered it."""
    node: str = ""
    """The machine of the pilot; empty: a mover delivered it."""
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
        """Return the storage and operation that failed."""
        return self.source, self.destination


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRest:
    """A pause of a storage: nothing moves from it, or to it, or (with both) between a pair, until a time in s
    since 1970.

    After that, one delivery tries. ``failures`` counts those in a row; ``error`` is the last one's.
    """

    source: str
    destination: str
    since: float
    until: float
    failures: int
    error: str

    @property
    def end(self) -> End:
        """Return the paused storage and operation."""
        return self.source, self.destination

    @property
    def forgotten(self) -> float:
        """Return the time from which its failures count no more although nobody tried, in s since 1970
        UTC."""
        return self.until + (self.until - self.since)

    @property
    def what(self) -> str:
        """Return the name of what is paused."""
        if self.source and self.destination:
            return f"moving from {self.source} to {self.destination}"
        return f"reading from {self.source}" if self.source else f"writing to {self.destination}"

    @property
    def text(self) -> str:
        """Return what is paused, until when, and why, in words."""
        until = datetime.fromtimestamp(self.until, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        failed = f"{self.failures} failed in a row, the last with: {self.error}"
        return f"{self.what} rests until {until}: {failed}"

    def concerns(self, source: str, destination: str) -> bool:
        """Return whether it concerns transfers between two storages."""
        return self.source in ("", source) and self.destination in ("", destination)


def one_line(error: str) -> str:
    """Return the first non-empty line of an error, cut if it is long."""
    line = next((line.strip() for line in error.splitlines() if line.strip()), "no reason told")
    return line if len(line) <= LONGEST_ERROR else f"{line[:LONGEST_ERROR]} ..."


def storage_rests(
    failed: Iterable[FailedDelivery], constants: StagingConstants, time: float
) -> tuple[StorageRest, ...]:
    """Return the storages that are paused, or due for a trial, at a time in s since 1970; by name.

    First, deliveries of ``failing_files`` different files must fail in a row, so that nobody's broken file
    closes a storage to others. Failures reported by pilots must come from at least two machines and two
    tasks: one machine may be disconnected, and one task may lie. A row is forgotten if nothing more is heard
    of it for as long as its pause took.
    """
    rows: dict[End, list[FailedDelivery]] = defaultdict(list)
    for one in sorted(failed, key=lambda one: (one.time, one.transfer, one.job, one.attempt)):
        rows[one.end].append(one)
    found = (_rest(end, row, constants) for end, row in sorted(rows.items()))
    return tuple(rest for rest in found if rest is not None and time < rest.forgotten)


def tried_again(failed: Iterable[FailedDelivery], constants: StagingConstants) -> dict[int, float]:
    """Return when each job may be retried whose pilots reported failing storages, in s since 1970.

    Pilots are trusted about their own job: after each such attempt it waits, twice as long each time.
    """
    times: dict[int, list[float]] = defaultdict(list)
    for one in failed:
        if one.job:
            times[one.job].append(one.time)
    return {job: max(own) + constants.storage_rest_after(len(own) - 1) for job, own in times.items()}


def resting_at(rests: Sequence[StorageRest], time: float) -> tuple[StorageRest, ...]:
    """Return the pauses that have not ended."""
    return tuple(rest for rest in rests if time < rest.until)


def _rest(end: End, row: list[FailedDelivery], constants: StagingConstants) -> StorageRest | None:
    seen: list[FailedDelivery] = []

    def enough(_: int, failure: FailedDelivery) -> bool:
        seen.append(failure)
        return _enough(seen, constants.failing_files)

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


def _enough(seen: Sequence[FailedDelivery], files: int) -> bool:
    """Return whether failures in a row pause a storage. Movers are trusted; pilots only if others agree."""
    if len({one.file for one in seen if not one.job}) >= files:
        return True
    agree = len({one.node for one in seen}) > 1 and len({one.task for one in seen}) > 1
    return agree and len({one.file for one in seen}) >= files
