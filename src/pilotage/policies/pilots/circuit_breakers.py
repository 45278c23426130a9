"""Circuit breakers that hold pilots back: of servers (P6), of empty pilots (P12), of list-matches (P8)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf

from pilotage.model.circuit_breakers.breaker import CircuitBreaker, lifted_at, open_at
from pilotage.model.circuit_breakers.empty_pilots import after_empty_ones
from pilotage.model.circuit_breakers.pilots import server_breaker
from pilotage.model.documents.world import World
from pilotage.model.records.computing_elements import entrance_of
from pilotage.model.records.federation import Queue
from pilotage.model.records.states import WAITING_PILOTS, PilotState
from pilotage.model.records.work import Pilot
from pilotage.policies.pilots.task_queues import by_queue, element_of

ONLY = ("",)
"""The servers of a computing element that names none: a single one, given by its options."""


def server_names(queue: Queue) -> tuple[str, ...]:
    """Return the names of a queue's servers."""
    return tuple(server.name for server in element_of(queue).servers) or ONLY


def of_pilots(world: World) -> tuple[CircuitBreaker, ...]:
    """Return all breakers that hold back pilots, or list-matches (P6, P8, P12)."""
    present: dict[tuple[str, str], list[Pilot]] = defaultdict(list)
    for pilot in world.pilots:
        present[pilot.queue, pilot.entrance].append(pilot)
    servers = (
        of_server(world, queue, name, present[queue.name, name])
        for queue in world.federation.queues
        if queue.computing_element
        for name in _entrances(queue)
        if (queue.name, name) in present
    )
    return (*(breaker for breaker in servers if breaker), *world.silent_servers, *of_empty_pilots(world))


def _entrances(queue: Queue) -> Iterator[str]:
    """Yield the servers of a queue, each under the common credential and under those of owners."""
    for credential in ("", *(each.name for each in element_of(queue).credentials)):
        for server in server_names(queue):
            yield entrance_of(server, credential)


def of_server(world: World, queue: Queue, entrance: str, pilots: Iterable[Pilot]) -> CircuitBreaker | None:
    """Return the breaker of a server under a credential (P6), given its pilots; None if it is closed."""
    return server_breaker(
        (queue.name, entrance),
        pilots,
        world.federation.director,
        world.queues_changed.get(queue.name),
        lifted_at(world.lifted_breakers, "server", queue.name, entrance),
    )


def of_empty_pilots(world: World) -> tuple[CircuitBreaker, ...]:
    """Return the breakers of queues where pilots find no work (P12).

    Pilots that ended without work count only under ``director.policy: balanced``. Nodes that lack something
    count under every policy, and for the brokerage too (B14).
    """
    director, lifted = world.federation.director, world.lifted_breakers
    if director.policy != "balanced":
        return world.lacking_nodes
    breakers = (
        after_empty_ones(queue, pilots, director, lifted)
        for queue, pilots in sorted(by_queue(world.pilots).items())
    )
    return (*(breaker for breaker in breakers if breaker), *world.lacking_nodes)


def room(breaker: CircuitBreaker | None, pilots: Sequence[Pilot], time: float) -> float:
    """Return how many pilots may be sent to a place: any number; none while its breaker is open; one as a
    probe."""
    if breaker is None:
        return inf
    is_probed = any(pilot.state in WAITING_PILOTS for pilot in pilots)
    return 1 if breaker.state(time) == "half-open" and not is_probed else 0


def has_closed(world: World, time: float) -> bool:
    """Return whether a pilot's call has closed a breaker since a time (P6, P12)."""
    late = {pilot.id for pilot in world.pilots if pilot.state is PilotState.RUNNING and pilot.since > time}
    if not late:
        return False
    waiting = (
        replace(pilot, state=PilotState.SUBMITTED, heartbeat=None, matched=0) if pilot.id in late else pilot
        for pilot in world.pilots
    )
    before = of_pilots(replace(world, pilots=tuple(waiting)))
    return bool({breaker.key for breaker in before} - {breaker.key for breaker in of_pilots(world)})


def asked_in_vain(world: World) -> dict[tuple[str, str], CircuitBreaker]:
    """Return the breakers of servers that get no list-match now because they did not answer, by queue and
    server (P8)."""
    return {breaker.place: breaker for breaker in open_at(world.silent_servers, world.time)}
