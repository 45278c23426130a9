"""Failing servers (P6) and empty queues (P12) are paused for some time, then one pilot tries them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from pilotage.model.documents.world import World
from pilotage.model.records.constants import DirectorConstants, longer_each_time
from pilotage.model.records.states import LIVE_PILOTS, WAITING_PILOTS
from pilotage.model.records.work import Pilot
from pilotage.model.rules.failing_pilots import FINE, LeftAlone

from .lacking import NEEDS, made_for
from .task_queues import by_queue


def after_empty_ones(pilots: Iterable[Pilot], director: DirectorConstants) -> LeftAlone:
    """Return the pause of a queue whose pilots ended without work, counted after the last useful one (P12).

    Pilots of one iteration count once: they were made for the same work.
    """
    return _after(list(pilots), is_empty, lambda pilot: pilot.matched > 0, director)


def after_lacking_ones(pilots: Iterable[Pilot], need: str, director: DirectorConstants) -> LeftAlone:
    """Return the pause of a queue for one need that the nodes of pilots sent for it lack (P12)."""
    return _after(
        made_for(pilots, need),
        lambda pilot: need in pilot.lacks,
        lambda pilot: pilot.matched > 0 and need not in pilot.lacks,
        director,
    )


def _after(
    pilots: Sequence[Pilot],
    is_vain: Callable[[Pilot], bool],
    is_useful: Callable[[Pilot], bool],
    director: DirectorConstants,
) -> LeftAlone:
    """Return the pause after useless pilots, counted after the last useful one."""
    useful = max((pilot.created for pilot in pilots if is_useful(pilot)), default=-inf)
    vain = [pilot for pilot in pilots if is_vain(pilot) and pilot.created > useful]
    if not vain:
        return FINE
    times = len({pilot.created for pilot in vain})
    return LeftAlone(times, max(p.since for p in vain) + longer_each_time(director.empty_pause, times))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRest:
    """A queue that is paused because its pilots ended without work, and until when (s since 1970).

    If its nodes lack ``GPUs`` or ``containers``, it is paused only for task queues that need these.
    """

    queue: str
    times: int
    until: float
    lacks: str = ""


def empty_queues(world: World) -> tuple[QueueRest, ...]:
    """Return the queues that ``director.policy: balanced`` pauses now, or tries with one pilot (P12)."""
    director = world.federation.director
    if director.policy != "balanced":
        return ()
    found = []
    for queue, pilots in sorted(by_queue(world.pilots).items()):
        if (rest := after_empty_ones(pilots, director)).times:
            found.append(QueueRest(queue=queue, times=rest.times, until=rest.until))
        found += [
            QueueRest(queue=queue, times=rest.times, until=rest.until, lacks=need)
            for need in NEEDS
            if any(need in pilot.lacks for pilot in pilots)
            and (rest := after_lacking_ones(pilots, need, director)).times
        ]
    return tuple(found)


def is_empty(pilot: Pilot) -> bool:
    """Return whether a pilot called home and ended without ever having a job."""
    return pilot.state not in LIVE_PILOTS and pilot.heartbeat is not None and not pilot.matched


def room(rest: LeftAlone, pilots: Sequence[Pilot], time: float) -> float:
    """Return how many pilots a place may get: none during its pause, one to try it, then any number."""
    if not rest.times:
        return inf
    tried = any(pilot.state in WAITING_PILOTS for pilot in pilots)
    return 1 if time >= rest.until and not tried else 0
