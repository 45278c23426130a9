"""What is stuck: records that stay in a state for longer than is usual for their kind there."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from pilotage.model.records.states import (
    JobState,
    Kind,
    NotificationState,
    PilotState,
    PublicationState,
    State,
    TaskState,
    TransferState,
)

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0

FLOORS: Mapping[tuple[Kind, State], float] = {
    ("task", TaskState.REGISTERED): 10 * MINUTE,
    ("task", TaskState.SCOUTING): DAY,
    ("task", TaskState.SPLITTING): 12 * HOUR,
    ("task", TaskState.MERGING): 12 * HOUR,
    ("job", JobState.THROTTLED): DAY,
    ("job", JobState.PENDING): 6 * HOUR,
    ("job", JobState.DEFINED): 10 * MINUTE,
    ("job", JobState.HELD): 3 * DAY,
    ("job", JobState.ASSIGNED): 2 * HOUR,
    ("job", JobState.ACTIVATED): 2 * HOUR,
    ("job", JobState.SENT): 10 * MINUTE,
    ("job", JobState.STARTING): 30 * MINUTE,
    ("job", JobState.RUNNING): 12 * HOUR,
    ("job", JobState.HOLDING): 30 * MINUTE,
    ("job", JobState.TRANSFERRING): 2 * HOUR,
    ("transfer", TransferState.QUEUED): 2 * HOUR,
    ("transfer", TransferState.PREPARING): 10 * MINUTE,
    ("transfer", TransferState.PREPARED): HOUR,
    ("transfer", TransferState.DELIVERING): HOUR,
    ("transfer", TransferState.DELIVERED): 10 * MINUTE,
    ("transfer", TransferState.FINISHING): 10 * MINUTE,
    ("pilot", PilotState.CREATED): 10 * MINUTE,
    ("pilot", PilotState.SUBMITTED): 6 * HOUR,
    ("publication", PublicationState.WAITING): HOUR,
    ("publication", PublicationState.PUBLISHING): HOUR,
    ("notification", NotificationState.WAITING): HOUR,
    ("notification", NotificationState.SENDING): 10 * MINUTE,
}
"""s in a state below which nothing of its kind is stuck, however fast it usually is. States that are left out
wait for others, or for a person: a running pilot lives by its heartbeat, a running task by its jobs."""

QUANTILE = 0.95
"""Part of the past that was faster than what counts as usual."""

FACTOR = 2.0
"""How many times longer than usual something takes before it is stuck."""

LEAST_PAST = 10
"""Fewest records of the past from which a usual time is told."""

LONGEST_USUAL = 7 * DAY
"""s after which everything is stuck, however slow it usually is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """The time that a record spent in a state in s: at a queue, storage or share, or at none."""

    kind: Kind
    state: State
    place: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StayingRecord:
    """A record that is in a state ``since`` a time, in s since 1970 UTC."""

    kind: Kind
    state: State
    place: str
    id: int
    since: float
    error: str = ""
    """Its last error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckGroup:
    """Records of a kind that are stuck in one state at one place.

    ``usual`` is the time in s that such records take, by the past; None if too few did it. They are stuck
    after ``limit`` s. ``oldest`` entered the state first, at ``since``, with this ``error``.
    """

    kind: Kind
    state: State
    place: str
    count: int
    oldest: int
    since: float
    usual: float | None
    limit: float
    error: str = ""


def usual_times(past: Iterable[Stay]) -> dict[tuple[Kind, State, str], float]:
    """Return the usual time in s of each kind, state and place; under the place ``*`` that of all places."""
    found: defaultdict[tuple[Kind, State, str], list[float]] = defaultdict(list)
    for stay in past:
        for place in (stay.place, "*"):
            found[stay.kind, stay.state, place].append(stay.seconds)
    return {key: _quantile(times) for key, times in found.items() if len(times) >= LEAST_PAST}


def stuck(
    live: Iterable[StayingRecord], usual: Mapping[tuple[Kind, State, str], float], now: float
) -> list[StuckGroup]:
    """Return what is stuck at ``now``, by kind, state and place; those that exceed their limit most first."""
    groups: defaultdict[tuple[Kind, State, str], list[StayingRecord]] = defaultdict(list)
    for record in live:
        if (record.kind, record.state) in FLOORS:
            groups[record.kind, record.state, record.place].append(record)
    found = []
    for (kind, state, place), records in groups.items():
        known = usual.get((kind, state, place), usual.get((kind, state, "*")))
        limit = limit_of(kind, state, known)
        late = [one for one in records if now - one.since > limit]
        if late:
            oldest = min(late, key=lambda one: (one.since, one.id))
            group = StuckGroup(
                kind=kind,
                state=state,
                place=place,
                count=len(late),
                oldest=oldest.id,
                since=oldest.since,
                usual=known,
                limit=limit,
                error=oldest.error,
            )
            found.append(group)
    return sorted(found, key=lambda one: (-(now - one.since) / one.limit, one.kind, one.state, one.place))


def limit_of(kind: Kind, state: State, usual: float | None) -> float:
    """Return the time in s after which a record of a kind is stuck in a state, by its ``usual`` time."""
    floor = FLOORS[kind, state]
    return floor if usual is None else min(max(floor, FACTOR * usual), max(floor, LONGEST_USUAL))


def _quantile(times: Sequence[float]) -> float:
    return sorted(times)[ceil(QUANTILE * len(times)) - 1]
