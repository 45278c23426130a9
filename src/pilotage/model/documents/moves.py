"""Combine transitions of single jobs into as few moves as possible."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from pilotage.model.documents.decision import Creation, Move, Value
from pilotage.model.records.counters import JOBS_BY_TASK, Claim
from pilotage.model.records.failures import Tries
from pilotage.model.records.states import LIVE_JOBS, JobState, TaskState, TransferState
from pilotage.model.records.work import Job, Task, Transfer

FULL = "every queue that fits has its fill of waiting jobs"
"""Cause of moves of jobs that are pending for lack of room. They go on as soon as there is some."""

PATIENCE = 5.0
"""Seconds for which a job that lacks only room stays DEFINED (B37). Pilots take most such jobs in that time,
so each is written once less."""

_ORDER = {state: place for place, state in enumerate(JobState)}

FRESH: Mapping[str, Value] = {
    "queue": "",
    "choice": None,
    "pilot": None,
    **dict.fromkeys(("wake_at", "started", "ended")),
}
"""Values that a job loses when it goes back to the brokerage. Its last error stays readable."""


def no_live_job(task: int) -> Claim:
    """Return a claim that no job of the task is live, so that a task with live jobs cannot end.

    The commit also counts jobs that were changed or made since the world was read.
    """
    return Claim(counter=JOBS_BY_TASK, key=(task,), states=LIVE_JOBS, limit=1)


def task_failed(task: Task, cause: str, error: str, claims: tuple[Claim, ...] = ()) -> Move:
    """Return the move of a failed task, with the error for its owner."""
    return Move(
        kind="task",
        ids=(task.id,),
        source=task.state,
        target=TaskState.FAILED,
        cause=cause,
        changes={"error": error},
        claims=claims,
    )


class Wait(NamedTuple):
    """Why a job waits before its next attempt, and until when, in s since 1970."""

    until: float
    reason: str


class NextAttempt(NamedTuple):
    """Columns of a job that its next attempt changes, and the change in words; both empty: none.

    ``no_more`` is the reason why there is no next attempt; empty if there is one.
    """

    columns: Mapping[str, Value] = MappingProxyType({})
    words: str = ""
    no_more: str = ""


AS_BEFORE = NextAttempt()


@dataclass(frozen=True, slots=True)
class _Group:
    source: JobState
    target: JobState
    cause: str
    next_attempt: bool
    changes: Mapping[str, Value]
    attempts: dict[int, int] = field(default_factory=dict)
    job_changes: dict[int, Mapping[str, Value]] = field(default_factory=dict)
    creates: dict[int, tuple[Creation, ...]] = field(default_factory=dict)

    def move(self) -> Move:
        ids = tuple(sorted(self.attempts))
        return Move(
            kind="job",
            ids=ids,
            attempts=tuple(self.attempts[id_] for id_ in ids),
            source=self.source,
            target=self.target,
            cause=self.cause,
            next_attempt=self.next_attempt,
            changes=self.changes,
            own_changes=self.job_changes,
            creates={id_: self.creates[id_] for id_ in ids if id_ in self.creates},
        )


class JobMoves:
    """Collects the transitions of jobs, each fenced by its attempt, in any order.

    A job may make several steps in one decision. Each leads to a later state in the order of ``JobState``;
    only a restart at the end leads back.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[object, ...], _Group] = {}

    def add(
        self,
        job: Job,
        source: JobState,
        target: JobState,
        *,
        cause: str,
        changes: Mapping[str, Value] | None = None,
        job_changes: Mapping[str, Value] | None = None,
        creates: tuple[Creation, ...] = (),
        next_attempt: bool = False,
    ) -> None:
        """Add one step of one job. Jobs with equal ``changes`` move together; ``job_changes`` may differ."""
        changes = changes or {}
        key = (source, target, cause, next_attempt, *changes, *changes.values())
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(source, target, cause, next_attempt, changes)
        group.attempts[job.id] = job.attempt
        if job_changes:
            group.job_changes[job.id] = job_changes
        if creates:
            group.creates[job.id] = creates

    def fail(
        self,
        job: Job,
        source: JobState,
        tries: Tries,
        cause: str,
        changes: Mapping[str, Value],
        creates: tuple[Creation, ...] = (),
        wait: Wait | None = None,
        following: NextAttempt = AS_BEFORE,
    ) -> None:
        """Fail an attempt.

        While tries remain, the job returns to the brokerage as the next attempt, or waits. The ``following``
        attempt may ask for other values, or be none.
        """
        if following.no_more:
            first, *rest = str(changes["error"]).splitlines()
            changes = {**changes, "error": "\n".join([f"{first}; {following.no_more}", *rest])}
        self.add(job, source, JobState.FAILED, cause=cause, changes=changes, creates=creates)
        if tries.remain(job.attempt) and not following.no_more:
            again = f"tried again, {tries.next_in_words(job.attempt)}"
            again += f", with {following.words}" if following.words else ""
            target, later = JobState.DEFINED, {**FRESH, **following.columns}
            if wait is not None:
                again = f"to be {again}: {wait.reason}"
                target, later = JobState.PENDING, {**later, "wake_at": wait.until}
            self.add(job, JobState.FAILED, target, cause=again, changes=later, next_attempt=True)

    def retake(
        self,
        job: Job,
        source: JobState,
        tries: Tries,
        cause: str,
        changes: Mapping[str, Value] | None = None,
    ) -> None:
        """Return a job that has not started to the brokerage as its next attempt, or fail it after the last
        one.

        ``changes`` are further columns to set. In both cases ``cause`` is the job's error.
        """
        changes = {"error": cause, **(changes or {})}
        if tries.remain(job.attempt):
            again = {**FRESH, **changes}
            self.add(job, source, JobState.DEFINED, cause=cause, changes=again, next_attempt=True)
        else:
            self.add(job, source, JobState.FAILED, cause=cause, changes=changes)

    def gathered(self) -> tuple[Move, ...]:
        """Return the moves, ordered so that every job's steps follow each other."""
        groups = sorted(
            self._groups.values(),
            key=lambda group: (_ORDER[group.source], _ORDER[group.target], min(group.attempts)),
        )
        return tuple(group.move() for group in groups)


def moves_of(
    transfers: Iterable[Transfer],
    target: TransferState,
    cause: str,
    *,
    changes: Mapping[str, Value] | None = None,
    creates: Mapping[int, tuple[Creation, ...]] | None = None,
    next_attempt: bool = False,
) -> tuple[Move, ...]:
    """Return one move, by ascending id and fenced by attempt, for transfers in one state; none for none."""
    ordered = sorted(transfers, key=lambda transfer: transfer.id)
    if not ordered:
        return ()
    return (
        Move(
            kind="transfer",
            ids=tuple(transfer.id for transfer in ordered),
            attempts=tuple(transfer.attempt for transfer in ordered),
            source=ordered[0].state,
            target=target,
            cause=cause,
            changes=changes or {},
            creates=creates or {},
            next_attempt=next_attempt,
        ),
    )
