"""Failing servers (P6) and empty queues (P12) are left alone for a while, then tried by one pilot."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from pilotage.model.constants import DirectorConstants, longer_each_time
from pilotage.model.failing_pilots import FINE, LeftAlone
from pilotage.model.states import LIVE_PILOTS, WAITING_PILOTS
from pilotage.model.work import Pilot
from pilotage.model.world import World

from .task_queues import by_queue


def after_empty_ones(pilots: Iterable[Pilot], director: DirectorConstants) -> LeftAlone:
    """The rest of a queue whose pilots ended without work, those before the last useful one aside (P12).

    Pilots of one iteration count once: they were made for the same work.
    """
    pilots = list(pilots)
    useful = max((pilot.created for pilot in pilots if pilot.matched), default=-inf)
    empty = [pilot for pilot in pilots if is_empty(pilot) and pilot.created > useful]
    if not empty:
        return FINE
    times = len({pilot.created for pilot in empty})
    return LeftAlone(times, max(p.since for p in empty) + longer_each_time(director.empty_pause, times))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRest:
    """A queue that is left alone because its pilots ended without work, and until when (s since 1970)."""

    queue: str
    times: int
    until: float


def empty_queues(world: World) -> tuple[QueueRest, ...]:
    """The queues that ``director.policy: balanced`` leaves alone now, or tries by one pilot (P12)."""
    director = world.federation.director
    if director.policy != "balanced":
        return ()
    found = []
    for queue, pilots in sorted(by_queue(world.pilots).items()):
        if (rest := after_empty_ones(pilots, director)).times:
            found.append(QueueRest(queue=queue, times=rest.times, until=rest.until))
    return tuple(found)


def is_empty(pilot: Pilot) -> bool:
    """Tell whether a pilot called home and ended without ever having had a job."""
    return pilot.state not in LIVE_PILOTS and pilot.heartbeat is not None and not pilot.matched


def room(rest: LeftAlone, pilots: Sequence[Pilot], time: float) -> float:
    """Return the pilots that a place may be given: none while it rests, one to try it, then any number."""
    if not rest.times:
        return inf
    tried = any(pilot.state in WAITING_PILOTS for pilot in pilots)
    return 1 if time >= rest.until and not tried else 0
