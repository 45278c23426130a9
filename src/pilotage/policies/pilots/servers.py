"""Choose a computing element's server for pilots (P6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from pilotage.model.circuit_breakers.pilots import made_since
from pilotage.model.documents.world import World
from pilotage.model.records.computing_elements import entrance_of
from pilotage.model.records.federation import Queue
from pilotage.model.records.work import Pilot
from pilotage.model.values.ranking import rank
from pilotage.policies.pilots.circuit_breakers import of_server, room, server_names
from pilotage.policies.pilots.task_queues import element_of

if TYPE_CHECKING:  # an idle server does without numpy
    from numpy.random import Generator


@dataclass(slots=True)
class OpenServer:
    """A server that accepts pilots, how many more it accepts, and its rank. Without ranks all are equal."""

    name: str
    room: float
    rank: float = -inf


def open_servers(
    world: World, queue: Queue, pilots: Sequence[Pilot], random: "Generator", credential: str = ""
) -> list[OpenServer]:
    """Return the servers of a queue that accept pilots now under a credential, best first. ``pilots`` are the
    pilots of the queue under it.

    A server with an open circuit breaker accepts none. With a half-open breaker it accepts one, and comes
    first. The others are sorted by rank, equal ones at random.
    """
    servers = []
    changed = world.queues_changed.get(queue.name)
    for name in server_names(queue):
        server_pilots = [pilot for pilot in pilots if pilot.broker == name]
        breaker = of_server(world, queue, entrance_of(name, credential), server_pilots)
        free = room(breaker, made_since(server_pilots, changed), world.time)
        if free:
            servers.append(OpenServer(name, free))
    if len(servers) > 1:
        ranks = _ranks(world, queue)
        # Shuffle first: sorting keeps the order of equals, so it is random.
        random.shuffle(servers)
        for server in servers:
            server.rank = ranks.get(server.name, -inf)
        servers.sort(key=lambda server: (server.room == inf, -server.rank))
    return servers


def taking(servers: Sequence[OpenServer], pilots: int, random: "Generator") -> list[tuple[str, int]]:
    """Distribute a task queue's pilots: each probed server gets one, the best of the others all the rest.

    Draw one of the best servers if several have the same rank.
    """
    parts: list[tuple[str, int]] = []
    for server in servers:
        if server.room != inf and pilots:
            count = int(min(server.room, pilots))
            server.room -= count
            pilots -= count
            parts += [(server.name, count)] if count else []
    free = [server for server in servers if server.room == inf]
    best = [server for server in free if server.rank == free[0].rank]
    if pilots and best:
        parts.append((best[int(random.integers(len(best)))].name, pilots))
    return parts


def _ranks(world: World, queue: Queue) -> dict[str, float]:
    """Return the rank of each server that reported anything. Without a rank all are equal."""
    expression = element_of(queue).rank
    if not expression:
        return {}
    ranks = {}
    for report in world.server_reports:
        if report.queue == queue.name:
            slots, running, waiting = report.slots or 0, report.running or 0, report.waiting or 0
            values = {"slots": slots, "running": running, "waiting": waiting, "free": slots - running}
            ranks[report.server] = rank(expression, values)
    return ranks
