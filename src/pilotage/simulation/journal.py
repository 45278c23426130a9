"""Events at virtual sites and links. The metrics are computed from them."""

from dataclasses import dataclass, field

BroughtFile = tuple[str, str]
"""A file, and the URL of the storage that received it."""


@dataclass(slots=True)
class Journal:
    """Times are in s since 1970, work in HS23 s, sizes in bytes."""

    starts: int = 0
    """Payloads that started."""
    first_starts: dict[int, float] = field(default_factory=dict)
    """The first start of each job."""
    ended: dict[int, tuple[float, int, float]] = field(default_factory=dict)
    """By job: end, task and work of its successful payload. If a report was lost with its pilot and the
    job ran again, the last payload counts."""
    granted: float = 0.0
    """Work that the cores could have done while pilots held them."""
    pilots: int = 0
    """Pilots that started."""
    empty_pilots: int = 0
    """Pilots that ended without ever having a job."""
    moved: int = 0
    """Bytes delivered to storages as input of jobs, or read remotely."""
    delivered: int = 0
    """Bytes of delivered outputs."""
    _arrivals: dict[BroughtFile, int] = field(default_factory=dict)

    def started(self, job: int, time: float) -> None:
        """Record the start of a payload."""
        self.starts += 1
        self.first_starts.setdefault(job, time)

    def note_arrival(self, file: str, url: str, size: int) -> None:
        """Record that an input arrived at a storage."""
        self.moved += size
        self._arrivals[file, url] = self._arrivals.get((file, url), 0) + size

    def read(self, file: str, url: str) -> None:
        """Record that a job reads an input."""
        self._arrivals.pop((file, url), None)

    @property
    def unused(self) -> int:
        """Return the bytes delivered that no job has read."""
        return sum(self._arrivals.values())
