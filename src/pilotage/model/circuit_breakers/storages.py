"""What trips the circuit breakers of storages: delivery after delivery fails, the files being good (F4)."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from pilotage.model.circuit_breakers.breaker import CircuitBreaker, followed
from pilotage.model.records.constants import StagingConstants
from pilotage.model.values.scopes import name_of
from pilotage.model.values.types import DESCRIBED

End = tuple[str, str]
"""The storage at which deliveries fail, as their source or their destination; both: between these two."""


LONGEST_ERROR = 200
"""Characters that are kept of an error."""

_CUT = " ..."
"""The end of an error that was cut."""

_LEAST = 3
"""Characters of a name that are hidden. Fewer could be any part of an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDelivery:
    """A delivery that failed, and not because of its file: a mover's, or a pilot's that read or wrote it."""

    __pydantic_config__ = DESCRIBED

    transfer: int = 0
    """The transfer; 0: a pilot read or wrote the file."""
    job: int = 0
    """The job for which it did; 0: a mover delivered it."""
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
        """The storage and operation that failed."""
        return self.source, self.destination


def one_line(error: str) -> str:
    """Return the first line of an error that is not blank, shortened if necessary."""
    line = next((line.strip() for line in error.splitlines() if line.strip()), "no reason was given")
    return line if len(line) <= LONGEST_ERROR else f"{line[:LONGEST_ERROR]}{_CUT}"


def storage_breakers(
    failed: Iterable[FailedDelivery], constants: StagingConstants, time: float
) -> tuple[CircuitBreaker, ...]:
    """Return the breakers of storages, open or half-open at a time in s since 1970; by name.

    One opens after deliveries of ``failing_files`` different files have failed in a row: one broken file
    closes no storage. If pilots report the failures, they must come from two machines and two tasks at least,
    because a machine may be cut off, and a task may lie. A breaker closes if no failure follows for as long
    as it was open.
    """
    rows: dict[End, list[FailedDelivery]] = defaultdict(list)
    for failure in sorted(
        failed, key=lambda failure: (failure.time, failure.transfer, failure.job, failure.attempt)
    ):
        rows[failure.end].append(failure)
    breakers = (_breaker(end, row, constants) for end, row in sorted(rows.items()))
    return tuple(breaker for breaker in breakers if breaker is not None and time < breaker.forgotten)


def retried_at(failed: Iterable[FailedDelivery], constants: StagingConstants) -> dict[int, float]:
    """Return when each job that storages failed at its pilots may be tried again, in s since 1970.

    A pilot's report is enough for its own job, which waits twice as long after each such attempt.
    """
    times: dict[int, list[float]] = defaultdict(list)
    for failure in failed:
        if failure.job:
            times[failure.job].append(failure.time)
    return {job: max(job_times) + constants.open_for(len(job_times) - 1) for job, job_times in times.items()}


def _breaker(end: End, row: list[FailedDelivery], constants: StagingConstants) -> CircuitBreaker | None:
    failures: list[FailedDelivery] = []

    def trips(failure: FailedDelivery) -> bool:
        failures.append(failure)
        return _enough(failures, constants.failing_files)

    tripped = followed(row, trips, constants.open_for)
    if tripped is None or tripped.last is None:
        return None
    return tripped.breaker("storage", end, _without_file(tripped.last))


def _without_file(failure: FailedDelivery) -> str:
    """Return an error without the name of the file, because everybody sees why a storage is closed.

    The error may have the name percent-encoded, or cut at its end. A path in another folder of the storage
    ends with the last part of the name.
    """
    name = name_of(failure.file.removeprefix(f"{failure.job}/"))
    error = failure.error
    for text in (name, quote(name)):
        if len(text) >= _LEAST:
            error = _without_beginning(error.replace(text, "FILE"), text)
    last = name.rpartition("/")[2]
    for text in (last, quote(last)):
        if len(text) >= _LEAST:
            error = re.sub(rf"[^\s'\"]*{re.escape(text)}", "FILE", error)
    return error


def _without_beginning(error: str, name: str) -> str:
    """Return an error that was cut without the beginning of a name, or of a path, at its end."""
    if not error.endswith(_CUT):
        return error
    rest = error.removesuffix(_CUT)
    for end in range(min(len(name), len(rest)), _LEAST - 1, -1):
        if rest.endswith(name[:end]):
            return f"{rest[:-end]}FILE{_CUT}"
    return re.sub(r"[^\s'\"]*/[^\s]*$", "FILE", rest) + _CUT


def _enough(failures: Sequence[FailedDelivery], files: int) -> bool:
    """Return whether failures in a row trip a breaker: reports of pilots count only if others agree."""
    if len({failure.file for failure in failures if not failure.job}) >= files:
        return True
    agree = (
        len({failure.node for failure in failures}) > 1 and len({failure.task for failure in failures}) > 1
    )
    return agree and len({failure.file for failure in failures}) >= files
