"""How jobs of a task failed: grouped by error, exit code and queue."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pilotage.model.records.failures import ending_of, telling_line
from pilotage.model.records.states import JobState
from pilotage.model.records.work import JobKind


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedGroup:
    """Jobs whose last attempt failed in one way at one queue.

    ``failed`` counts jobs that failed for good, ``retried`` those that are tried again. ``error`` is the
    telling line of the job ``example``.
    """

    error: str
    exit_code: int | None
    queue: str
    failed: int
    retried: int
    example: int


@dataclass(frozen=True, slots=True)
class LastFailure:
    """How a job's last attempt failed, for good or before the job is tried again."""

    id: int
    kind: JobKind
    queue: str
    exit_code: int | None
    error: str
    state: JobState


def failed_groups(rows: Iterable[Any]) -> list[FailedGroup]:
    """Return rows of queue, exit code, error, state, jobs and first job as groups, most jobs first."""
    groups: dict[tuple[str, int | None, str], FailedGroup] = {}
    for queue, exit_code, error, state, many, job, _ in rows:
        is_final = state == JobState.FAILED
        new = FailedGroup(
            error=telling_line(error),
            exit_code=exit_code,
            queue=queue,
            failed=many if is_final else 0,
            retried=0 if is_final else many,
            example=job,
        )
        key = (queue, exit_code, ending_of(telling_line(error)))
        groups[key] = _joined(groups[key], new) if key in groups else new
    return sorted(groups.values(), key=lambda one: (-one.failed - one.retried, one.example))


def _joined(one: FailedGroup, other: FailedGroup) -> FailedGroup:
    first = min(one, other, key=lambda group: group.example)
    return replace(first, failed=one.failed + other.failed, retried=one.retried + other.retried)
