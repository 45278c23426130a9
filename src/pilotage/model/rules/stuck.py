"""Stuck records stay in a state for longer than is usual for their kind there."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

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
from pilotage.model.values.durations import DAY, HOUR, MINUTE


class Expectation(NamedTuple):
    """How long a record may stay in a state that it should leave by itself, and what to do then."""

    floor: float
    """s in it below which nothing is stuck, however fast it usually is."""
    lack: str
    """What a record in it waits for."""
    command: str
    """What mends that, or shows more: with the record's ``id``, its ``task`` and its ``place``."""


_JOB, _TRANSFER, _DOCTOR = "pilotage explain job:{id}", "pilotage explain transfer:{id}", "pilotage doctor"

EXPECTED: Mapping[tuple[Kind, State], Expectation] = {
    ("task", TaskState.REGISTERED): Expectation(
        10 * MINUTE, "it is not split into jobs", "pilotage explain {id}"
    ),
    ("task", TaskState.SCOUTING): Expectation(DAY, "its scouts have not ended", "pilotage jobs {id}"),
    ("task", TaskState.SPLITTING): Expectation(
        12 * HOUR, "some of its jobs are not made", "pilotage explain {id}"
    ),
    ("task", TaskState.MERGING): Expectation(12 * HOUR, "its merge has not ended", "pilotage jobs {id}"),
    ("job", JobState.THROTTLED): Expectation(DAY, "its quotas of live jobs are full", _JOB),
    ("job", JobState.PENDING): Expectation(6 * HOUR, "no queue takes it", _JOB),
    ("job", JobState.DEFINED): Expectation(10 * MINUTE, "the brokerage has not decided about it", _DOCTOR),
    ("job", JobState.HELD): Expectation(3 * DAY, "a person holds it", "pilotage release {task}"),
    ("job", JobState.ASSIGNED): Expectation(2 * HOUR, "its inputs have not arrived", _JOB),
    ("job", JobState.ACTIVATED): Expectation(2 * HOUR, "no pilot took it", "pilotage queues test {place}"),
    ("job", JobState.SENT): Expectation(10 * MINUTE, "its pilot never said that it has it", _JOB),
    ("job", JobState.STARTING): Expectation(30 * MINUTE, "its payload has not begun", _JOB),
    ("job", JobState.RUNNING): Expectation(12 * HOUR, "its payload has not ended", "pilotage logs job:{id}"),
    ("job", JobState.HOLDING): Expectation(30 * MINUTE, "its outputs were not sent on", _JOB),
    ("job", JobState.TRANSFERRING): Expectation(2 * HOUR, "its outputs have not arrived", _JOB),
    ("transfer", TransferState.QUEUED): Expectation(2 * HOUR, "no slot was free for it", _TRANSFER),
    ("transfer", TransferState.PREPARING): Expectation(10 * MINUTE, "its source is not settled", _TRANSFER),
    ("transfer", TransferState.PREPARED): Expectation(HOUR, "no slot was free for it", _TRANSFER),
    ("transfer", TransferState.DELIVERING): Expectation(HOUR, "its bytes have not arrived", _TRANSFER),
    ("transfer", TransferState.DELIVERED): Expectation(10 * MINUTE, "its replica is not recorded", _DOCTOR),
    ("transfer", TransferState.FINISHING): Expectation(10 * MINUTE, "its replica is not recorded", _DOCTOR),
    ("pilot", PilotState.CREATED): Expectation(
        10 * MINUTE, "it was never submitted", "pilotage doctor --only 'batch system'"
    ),
    ("pilot", PilotState.SUBMITTED): Expectation(
        6 * HOUR, "it waits at its site", "pilotage explain queue:{place}"
    ),
    ("publication", PublicationState.WAITING): Expectation(HOUR, "its catalogue was not asked", _DOCTOR),
    ("publication", PublicationState.PUBLISHING): Expectation(
        HOUR, "its catalogue has not answered", _DOCTOR
    ),
    ("notification", NotificationState.WAITING): Expectation(
        HOUR, "its receiver takes none", "pilotage notify list"
    ),
    ("notification", NotificationState.SENDING): Expectation(
        10 * MINUTE, "its receiver does not answer", "pilotage notify list"
    ),
}
"""States that are left out wait for others, or for a person: a running pilot lives by its heartbeat, a
running task by its jobs."""

QUANTILE = 0.95
"""Part of the past that was faster than what counts as usual."""

FACTOR = 2.0
"""How many times longer than usual something takes before it is stuck."""

LEAST_PAST = 10
"""Fewest past records that give a usual time."""

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

    ``usual`` is the time in s that such records usually take; None if too few are known. They are stuck after
    ``limit`` s. ``oldest`` entered the state first, at ``since``, with this ``error``.
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
    """Return the usual time in s by kind, state and place. The place ``*`` has the time over all places."""
    durations: defaultdict[tuple[Kind, State, str], list[float]] = defaultdict(list)
    for stay in past:
        for place in (stay.place, "*"):
            durations[stay.kind, stay.state, place].append(stay.seconds)
    return {key: quantile(times, QUANTILE) for key, times in durations.items() if len(times) >= LEAST_PAST}


def stuck(
    live: Iterable[StayingRecord], usual: Mapping[tuple[Kind, State, str], float], now: float
) -> list[StuckGroup]:
    """Return stuck records at ``now``, by kind, state and place, furthest beyond their limit first."""
    groups: defaultdict[tuple[Kind, State, str], list[StayingRecord]] = defaultdict(list)
    for record in live:
        if (record.kind, record.state) in EXPECTED:
            groups[record.kind, record.state, record.place].append(record)
    stuck_groups = []
    for (kind, state, place), records in groups.items():
        usual_time = usual.get((kind, state, place), usual.get((kind, state, "*")))
        limit = limit_of(kind, state, usual_time)
        late = [record for record in records if now - record.since > limit]
        if late:
            oldest = min(late, key=lambda record: (record.since, record.id))
            group = StuckGroup(
                kind=kind,
                state=state,
                place=place,
                count=len(late),
                oldest=oldest.id,
                since=oldest.since,
                usual=usual_time,
                limit=limit,
                error=oldest.error,
            )
            stuck_groups.append(group)
    return sorted(
        stuck_groups,
        key=lambda group: (-(now - group.since) / group.limit, group.kind, group.state, group.place),
    )


def limit_of(kind: Kind, state: State, usual: float | None) -> float:
    """Return how many s a record may be in a state before it is stuck, by the ``usual`` time."""
    floor = EXPECTED[kind, state].floor
    return floor if usual is None else min(max(floor, FACTOR * usual), max(floor, LONGEST_USUAL))


def quantile(values: Sequence[float], part: float) -> float:
    """Return the smallest of the values that at least ``part`` of them, above 0 and up to 1, do not exceed.

    Without values it is 0.
    """
    return sorted(values)[ceil(part * len(values)) - 1] if values else 0.0
