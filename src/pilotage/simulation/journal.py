"""Events at virtual sites and links, from which its metrics are computed."""

from dataclasses import dataclass, field

BroughtFile = tuple[str, str]
"""A file and the storage's URL that it was brought to."""


@dataclass(slots=True)
class Journal:
    """Times in s since 1970, work in HS23 seconds, sizes in bytes."""

    starts: int = 0
    """Payloads that started."""
    first_starts: dict[int, float] = field(default_factory=dict)
    """The first start of each job."""
    ended: dict[int, tuple[float, int, float]] = field(default_factory=dict)
    """The payload of each job that ended well: when, of which task, and its work; the last where a report was
    lost with the pilot and the job ran again."""
    granted: float = 0.0
    """Work that the cores could have done while pilots held them."""
    pilots: int = 0
    """Pilots that started."""
    empty_pilots: int = 0
    """Those that ended without ever having had a job."""
    moved: int = 0
    """Bytes delivered to storages for jobs to read, or read from afar."""
    delivered: int = 0
    """Bytes of outputs that were delivered."""
    _brought: dict[BroughtFile, int] = field(default_factory=dict)

    def started(self, job: int, time: float) -> None:
        """Note that a payload starts."""
        self.starts += 1
        self.first_starts.setdefault(job, time)

    def brought(self, file: str, url: str, size: int) -> None:
        """Note that an input arrived at a storage."""
        self.moved += size
        self._brought[file, url] = self._brought.get((file, url), 0) + size

    def read(self, file: str, url: str) -> None:
        """Note that a job reads an input."""
        self._brought.pop((file, url), None)

    @property
    def unused(self) -> int:
        """Bytes that were brought and that no job has read."""
        return sum(self._brought.values())
