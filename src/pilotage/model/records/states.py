"""The states of every kind of records, and the one table of their transitions.

The commit refuses transitions outside ``TRANSITIONS``, and the documentation's diagrams are drawn from
it.
"""

from collections.abc import Iterable
from enum import StrEnum
from itertools import product
from typing import Literal, NamedTuple

Kind = Literal["task", "job", "transfer", "pilot", "publication", "notification"]


class TaskState(StrEnum):
    """A task is split into jobs, scouts first; it runs, is merged if requested, and ends.

    A large task is split in parts, and its first jobs are brokered before the last ones are made. A task that
    comes after other tasks waits for them first.
    """

    WAITING = "waiting"
    REGISTERED = "registered"
    SCOUTING = "scouting"
    SPLITTING = "splitting"
    RUNNING = "running"
    MERGING = "merging"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobState(StrEnum):
    """The field's usual states of a job, in their order in its life."""

    THROTTLED = "throttled"
    PENDING = "pending"
    DEFINED = "defined"
    HELD = "held"
    ASSIGNED = "assigned"
    ACTIVATED = "activated"
    SENT = "sent"
    STARTING = "starting"
    RUNNING = "running"
    HOLDING = "holding"
    TRANSFERRING = "transferring"
    MERGING = "merging"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CLOSED = "closed"


class TransferState(StrEnum):
    """A transfer waits for a slot three times (D8): for preparation, for delivery by a mover, and for
    finishing."""

    QUEUED = "queued"
    PREPARING = "preparing"
    PREPARED = "prepared"
    DELIVERING = "delivering"
    DELIVERED = "delivered"
    FINISHING = "finishing"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class PilotState(StrEnum):
    """A pilot is recorded before its submission (P10), waits at the site, runs, and ends."""

    CREATED = "created"
    SUBMITTED = "submitted"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class PublicationState(StrEnum):
    """A publication waits for its turn. Then an external catalogue registers it, or Pilotage gives up."""

    WAITING = "waiting"
    PUBLISHING = "publishing"
    PUBLISHED = "published"
    FAILED = "failed"


class NotificationState(StrEnum):
    """A notification waits for its turn, with others for the same receiver. They are sent together, tried
    again later, or given up."""

    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"


State = TaskState | JobState | TransferState | PilotState | PublicationState | NotificationState


class Transition(NamedTuple):
    """One allowed step. ``source`` is None for a record's first state."""

    kind: Kind
    source: State | None
    target: State
    meaning: str


T, J, X, P = TaskState, JobState, TransferState, PilotState
U, N = PublicationState, NotificationState

_LIVE_TASKS = (T.WAITING, T.REGISTERED, T.SCOUTING, T.SPLITTING, T.RUNNING, T.MERGING)
_LIVE_JOBS = tuple(s for s in J if s not in (J.FINISHED, J.FAILED, J.CANCELLED, J.CLOSED))
_AT_A_PILOT = (J.SENT, J.STARTING, J.RUNNING)
_UNSTARTED = (J.ASSIGNED, J.ACTIVATED)
_UNDELIVERED = (X.QUEUED, X.PREPARING, X.PREPARED, X.DELIVERING)


def _rows(
    kind: Kind, sources: Iterable[State | None], targets: Iterable[State], meaning: str
) -> list[Transition]:
    return [Transition(kind, source, target, meaning) for source, target in product(sources, targets)]


_TABLE: list[Transition] = [
    *_rows("task", [None], [T.WAITING], "accepted; it comes after other tasks"),
    *_rows("task", [None], [T.REGISTERED], "accepted"),
    *_rows("task", [T.WAITING], [T.WAITING], "held because a task before it failed, or released"),
    *_rows("task", [T.WAITING], [T.REGISTERED], "the tasks before it have ended"),
    *_rows("task", [T.REGISTERED], [T.SCOUTING], "split; its scouts are made"),
    *_rows("task", [T.REGISTERED, T.SPLITTING], [T.SPLITTING], "some of its jobs are made"),
    *_rows("task", [T.SCOUTING], [T.SPLITTING], "its scouts are measured"),
    *_rows("task", [T.REGISTERED, T.SPLITTING], [T.RUNNING], "all of its jobs are made"),
    *_rows("task", [T.SCOUTING], [T.RUNNING], "to end with what it has, by a person"),
    *_rows("task", [T.RUNNING], [T.MERGING], "every job's output is there"),
    *_rows("task", [T.RUNNING, T.MERGING], [T.FINISHED], "every job finished"),
    *_rows(
        "task",
        _LIVE_TASKS,
        [T.FAILED],
        "a job failed for good, too many scouts did, or the task cannot be split or has nothing to read",
    ),
    *_rows("task", _LIVE_TASKS, [T.CANCELLED], "cancelled by a person"),
    *_rows(
        "task",
        [T.FAILED, T.CANCELLED],
        [T.WAITING, T.SCOUTING, T.SPLITTING, T.RUNNING, T.MERGING],
        "retried by a person, or to end with what it has",
    ),
    *_rows("job", [None], [J.THROTTLED], "split off its task, beyond a quota of live jobs"),
    *_rows("job", [None], [J.DEFINED], "split off its task"),
    *_rows("job", [J.THROTTLED], [J.DEFINED], "its quotas have room"),
    *_rows("job", [J.PENDING, J.DEFINED, *_UNSTARTED], [J.HELD], "held by a person"),
    *_rows("job", [J.HELD], [J.DEFINED], "released by a person"),
    *(
        row
        for state in (J.THROTTLED, J.DEFINED, J.HELD)
        for row in _rows("job", [state], [state], "changed by a person")
    ),
    *_rows("job", [J.DEFINED], [J.PENDING], "no queue fits, or all that do are full"),
    *_rows("job", [J.PENDING], [J.DEFINED], "its hour is over, or what it waited for happened"),
    *_rows("job", [J.PENDING], [J.ASSIGNED, J.ACTIVATED], "brokered: a queue takes it now"),
    *_rows("job", [J.DEFINED], [J.ASSIGNED], "brokered; inputs must be moved"),
    *_rows("job", [J.DEFINED], [J.ACTIVATED], "brokered; inputs are there"),
    *_rows("job", [J.ASSIGNED], [J.ACTIVATED], "inputs arrived"),
    *_rows("job", [*_UNSTARTED, J.SENT, J.STARTING], [J.DEFINED], "not started in time; brokered again"),
    *_rows("job", [J.ACTIVATED], [J.SENT], "matched to a pilot"),
    *_rows("job", [J.ASSIGNED], [J.SENT], "borrowed by a pilot elsewhere, which reads its inputs itself"),
    *_rows("job", [J.SENT], [J.STARTING], "its pilot prepares it"),
    *_rows("job", [J.SENT, J.STARTING], [J.RUNNING], "its payload runs"),
    *_rows("job", [J.RUNNING], [J.HOLDING], "payload done, outputs stored at the site"),
    *_rows("job", [J.HOLDING], [J.TRANSFERRING], "outputs on the way to their storage"),
    *_rows("job", [J.RUNNING, J.HOLDING, J.TRANSFERRING], [J.MERGING], "outputs wait to be merged"),
    *_rows("job", [J.RUNNING, J.HOLDING, J.TRANSFERRING, J.MERGING], [J.FINISHED], "all done"),
    *_rows("job", _LIVE_JOBS, [J.FAILED], "this attempt failed"),
    *_rows("job", [J.FAILED], [J.DEFINED], "tried again, as the next attempt"),
    *_rows(
        "job",
        [J.FAILED],
        [J.PENDING],
        "tried again later, as the next attempt: its storage failed, or its pilot may still run it",
    ),
    *_rows("job", [J.CANCELLED, J.CLOSED], [J.DEFINED], "retried by a person, as the next attempt"),
    *_rows(
        "job",
        [J.FAILED, J.CANCELLED, J.CLOSED],
        [J.THROTTLED],
        "retried by a person, as the next attempt, beyond a quota of live jobs",
    ),
    *_rows("job", [J.CLOSED, J.CANCELLED, J.FINISHED], [J.MERGING], "its task is retried; its outputs stay"),
    *_rows("job", _LIVE_JOBS, [J.CANCELLED], "cancelled by a person"),
    *_rows("job", _LIVE_JOBS, [J.CLOSED], "its task ended without it"),
    *_rows("transfer", [None], [X.QUEUED], "asked for"),
    *_rows("transfer", [X.QUEUED], [X.PREPARING], "given a slot to be prepared"),
    *_rows("transfer", [X.PREPARING], [X.PREPARED], "its source is settled"),
    *_rows("transfer", [X.PREPARED], [X.DELIVERING], "given a slot to be delivered"),
    *_rows("transfer", [X.PREPARED], [X.QUEUED], "put back: its storage's circuit breaker is open"),
    *_rows("transfer", [X.DELIVERING], [X.QUEUED], "tried again"),
    *_rows("transfer", [X.DELIVERING], [X.DELIVERED], "bytes delivered, size and checksum right"),
    *_rows("transfer", [X.DELIVERED], [X.FINISHING], "given a slot to be finished"),
    *_rows("transfer", [X.FINISHING], [X.DONE], "replica recorded; jobs that wait for it go on"),
    *_rows("transfer", _UNDELIVERED, [X.FAILED], "out of tries, or of sources"),
    *_rows("transfer", [*_UNDELIVERED, X.DELIVERED], [X.CANCELLED], "no job waits for it"),
    *_rows("pilot", [None], [P.CREATED], "decided and recorded"),
    *_rows("pilot", [P.CREATED], [P.SUBMITTED], "in the site's queue"),
    *_rows("pilot", [P.CREATED, P.SUBMITTED], [P.RUNNING], "called home"),
    *_rows("pilot", [P.SUBMITTED, P.RUNNING], [P.FINISHED], "ended"),
    *_rows("pilot", [P.CREATED, P.SUBMITTED, P.RUNNING], [P.FAILED], "refused, aborted or lost"),
    *_rows("pilot", [P.SUBMITTED], [P.CANCELLED], "waited too long at its site, or for nothing"),
    *_rows("pilot", [P.CREATED], [P.CANCELLED], "its work was cancelled"),
    *_rows("publication", [None], [U.WAITING], "an output was accepted, or its task finished"),
    *_rows("publication", [U.WAITING], [U.PUBLISHING], "its catalogue is asked"),
    *_rows("publication", [U.PUBLISHING], [U.PUBLISHED], "registered there"),
    *_rows("publication", [U.PUBLISHING], [U.WAITING], "tried again"),
    *_rows("publication", [U.WAITING, U.PUBLISHING], [U.FAILED], "refused, or given up"),
    *_rows("publication", [U.FAILED], [U.WAITING], "a person asked for it again"),
    *_rows("notification", [None], [N.WAITING], "a person wants this news"),
    *_rows("notification", [N.WAITING], [N.SENDING], "its receiver is called"),
    *_rows("notification", [N.SENDING], [N.SENT], "its receiver took it"),
    *_rows("notification", [N.SENDING], [N.WAITING], "tried again"),
    *_rows("notification", [N.WAITING, N.SENDING], [N.FAILED], "refused, or given up"),
]

TRANSITIONS: dict[tuple[Kind, State | None, State], str] = {row[:3]: row.meaning for row in _TABLE}

STATES: dict[Kind, type[State]] = {
    "task": T,
    "job": J,
    "transfer": X,
    "pilot": P,
    "publication": U,
    "notification": N,
}

QUEUED_JOBS = (J.DEFINED, J.ASSIGNED, J.ACTIVATED, J.STARTING)
"""The states that count as waiting at a queue (B32, B36)."""

AT_A_PILOT = _AT_A_PILOT
"""A pilot holds the job. Taking it away needs a new attempt."""

UNSTARTED_JOBS = _UNSTARTED
JOBS_NOT_STARTED = (J.THROTTLED, J.PENDING, J.DEFINED, J.HELD, *_UNSTARTED)
"""Jobs that no pilot has had in this attempt: fields of their task may change for them."""

SUBMITTING_JOBS = (*_UNSTARTED, J.SENT, J.STARTING)
"""Jobs matched to a site that no pilot runs yet (M5)."""

JOBS_AT_A_SITE = (*SUBMITTING_JOBS, J.RUNNING, J.HOLDING, J.TRANSFERRING)
"""Jobs matched to a site that have not ended (M5). A job that waits for a merge has left it, because the
merge job may need its place."""

DONE_JOBS = (J.HOLDING, J.TRANSFERRING, J.MERGING, J.FINISHED)
"""The payload succeeded."""

LIVE_JOBS = _LIVE_JOBS
JOBS_AT_WORK = tuple(state for state in LIVE_JOBS if state is not J.MERGING)
"""Jobs that a task waits for. Those that wait for a merge are otherwise done."""

COUNTED_JOBS = tuple(state for state in JOBS_AT_WORK if state is not J.THROTTLED)
"""Jobs that count against quotas of live jobs. Those that wait for a merge do not: they wait for the
others."""

LIVE_TASKS = _LIVE_TASKS
TASKS_TO_SPLIT = (T.REGISTERED, T.SPLITTING)
"""Tasks with jobs that can be made now."""

UNFINISHED_TRANSFERS = (*_UNDELIVERED, X.DELIVERED)
"""Transfers that can still serve further requests for the same file at the same storage, and that may be
cancelled."""

QUEUED_TRANSFERS = (X.QUEUED, X.PREPARED)
"""Transfers that wait for a slot with no bytes moved: they may be raised, or cancelled at no cost."""

TRANSFERS_AHEAD = (X.PREPARING, X.PREPARED)
"""Transfers that are prepared, or in preparation, ahead of their delivery (D11)."""

LIVE_TRANSFERS = (*UNFINISHED_TRANSFERS, X.FINISHING)
WAITING_PILOTS = (P.CREATED, P.SUBMITTED)
PILOTS_AT_A_SITE = (P.SUBMITTED, P.RUNNING)
"""Pilots that a batch system knows."""

LIVE_PILOTS = (*WAITING_PILOTS, P.RUNNING)
LIVE_PUBLICATIONS = (U.WAITING, U.PUBLISHING)
LIVE_NOTIFICATIONS = (N.WAITING, N.SENDING)

LIVE: dict[Kind, tuple[State, ...]] = {
    "task": LIVE_TASKS,
    "job": LIVE_JOBS,
    "transfer": LIVE_TRANSFERS,
    "pilot": LIVE_PILOTS,
    "publication": LIVE_PUBLICATIONS,
    "notification": LIVE_NOTIFICATIONS,
}
"""States of records that have not ended."""

ENDED: dict[Kind, tuple[State, ...]] = {
    kind: tuple(state for state in states if state not in LIVE[kind]) for kind, states in STATES.items()
}
"""States of ended records. A failed job may be retried."""

FIRST: dict[Kind, State] = {row.kind: row.target for row in _TABLE if row.source is None}
"""The first state of each kind of record. Jobs beyond a quota begin throttled, tasks after others wait."""


def is_allowed(kind: Kind, source: State | None, target: State) -> bool:
    """Return whether the table has this transition."""
    return (kind, source, target) in TRANSITIONS
