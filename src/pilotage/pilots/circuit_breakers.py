"""Circuit breakers that hold pilots back: of servers (P6), of empty pilots (P12), of list-matches (P8)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf

from pilotage.model.circuit_breakers.breaker import (
    CircuitBreaker,
    FailedBatch,
    LiftedBreaker,
    each_opens,
    lifted_at,
    open_at,
)
from pilotage.model.circuit_breakers.pilots import begun, server_breaker
from pilotage.model.documents.world import World
from pilotage.model.records.constants import DirectorConstants, longer_each_time
from pilotage.model.records.federation import Queue
from pilotage.model.records.states import LIVE_PILOTS, WAITING_PILOTS, PilotState
from pilotage.model.records.work import Pilot

from .lacking import NEEDS, made_for
from .task_queues import by_queue, element_of

ONLY = ("",)
"""The servers of a computing element that names none: the one of its options."""


def server_names(queue: Queue) -> tuple[str, ...]:
    """The servers of a queue."""
    return tuple(server.name for server in element_of(queue).servers) or ONLY


def of_pilots(world: World) -> tuple[CircuitBreaker, ...]:
    """All breakers that hold pilots back, or questions before them (P6, P8, P12)."""
    present = by_queue(world.pilots)
    queues = [queue for queue in world.federation.queues if queue.computing_element]
    servers = (
        of_server(world, queue, name, present[queue.name])
        for queue in queues
        if queue.name in present
        for name in server_names(queue)
    )
    return (*(one for one in servers if one), *world.silent_servers, *of_empty_pilots(world))


def of_server(world: World, queue: Queue, server: str, pilots: Iterable[Pilot]) -> CircuitBreaker | None:
    """The breaker of a server (P6); pilots are those of its queue."""
    return server_breaker(
        (queue.name, server),
        [pilot for pilot in pilots if pilot.broker == server],
        world.federation.director,
        world.queues_changed.get(queue.name),
        lifted_at(world.lifted_breakers, "server", queue.name, server),
    )


def of_empty_pilots(world: World) -> tuple[CircuitBreaker, ...]:
    """The breakers of queues to which ``director.policy: balanced`` has sent pilots in vain (P12)."""
    director, lifted = world.federation.director, world.lifted_breakers
    if director.policy != "balanced":
        return ()
    found: list[CircuitBreaker | None] = []
    for queue, pilots in sorted(by_queue(world.pilots).items()):
        found.append(after_empty_ones(queue, pilots, director, lifted))
        found += [
            after_lacking_ones(queue, pilots, need, director, lifted)
            for need in NEEDS
            if any(need in pilot.lacks for pilot in pilots)
        ]
    return tuple(one for one in found if one)


def after_empty_ones(
    queue: str, pilots: Iterable[Pilot], director: DirectorConstants, lifted: Sequence[LiftedBreaker] = ()
) -> CircuitBreaker | None:
    """The breaker of a queue whose pilots ended without work, those before the last useful one aside (P12).

    Pilots of one iteration count once: they were made for the same work.
    """
    since = lifted_at(lifted, "empty-pilots", queue, "")
    return _after((queue, ""), list(pilots), is_empty, lambda pilot: pilot.matched > 0, director, since)


def after_lacking_ones(
    queue: str,
    pilots: Iterable[Pilot],
    need: str,
    director: DirectorConstants,
    lifted: Sequence[LiftedBreaker] = (),
) -> CircuitBreaker | None:
    """The breaker of a queue as to one need, where the nodes of pilots sent for it lack that (P12)."""
    return _after(
        (queue, need),
        made_for(pilots, need),
        lambda pilot: need in pilot.lacks,
        lambda pilot: pilot.matched > 0 and need not in pilot.lacks,
        director,
        lifted_at(lifted, "empty-pilots", queue, need),
    )


def _after(
    place: tuple[str, str],
    pilots: Sequence[Pilot],
    is_vain: Callable[[Pilot], bool],
    is_useful: Callable[[Pilot], bool],
    director: DirectorConstants,
    lifted: float,
) -> CircuitBreaker | None:
    """The breaker after pilots in vain, since the last useful one and since it was lifted."""
    useful = [pilot for pilot in pilots if is_useful(pilot)]
    after = max((pilot.created for pilot in useful), default=-inf)
    after, began = max(after, lifted), begun(useful)
    why = f"its nodes lack {place[1]}" if place[1] else "they ended without work"
    ends = [
        FailedBatch(one.since, one.created, why)
        for one in pilots
        if is_vain(one) and one.created > after and one.since > began
    ]
    found = each_opens(ends, lambda openings: longer_each_time(director.empty_pause, openings + 1))
    return found.breaker("empty-pilots", place, why) if found else None


def is_empty(pilot: Pilot) -> bool:
    """Tell whether a pilot called home and ended without ever having had a job."""
    return pilot.state not in LIVE_PILOTS and pilot.heartbeat is not None and not pilot.matched


def room(breaker: CircuitBreaker | None, pilots: Sequence[Pilot], time: float) -> float:
    """Return the pilots that a place may be given: any number; none while its breaker is open; one probe."""
    if breaker is None:
        return inf
    is_probed = any(pilot.state in WAITING_PILOTS for pilot in pilots)
    return 1 if breaker.state(time) == "half-open" and not is_probed else 0


def has_closed(world: World, time: float) -> bool:
    """Tell whether a breaker that held pilots back has closed since a time, as pilots called (P6, P12)."""
    late = {one.id for one in world.pilots if one.state is PilotState.RUNNING and one.since > time}
    if not late:
        return False
    waiting = (
        replace(one, state=PilotState.SUBMITTED, heartbeat=None, matched=0) if one.id in late else one
        for one in world.pilots
    )
    before = of_pilots(replace(world, pilots=tuple(waiting)))
    return bool({one.key for one in before} - {one.key for one in of_pilots(world)})


def asked_in_vain(world: World) -> dict[tuple[str, str], CircuitBreaker]:
    """The queues and servers that are not asked for resources now, since they did not answer (P8)."""
    return {one.place: one for one in open_at(world.silent_servers, world.time)}
