"""List-match: if a queue uses it, no resource means no pilot (P8)."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pilotage.model.documents.world import World
from pilotage.model.records.federation import Queue
from pilotage.model.records.observations import ListMatch
from pilotage.model.records.work import Requirements
from pilotage.policies.pilots.circuit_breakers import asked_in_vain, server_names
from pilotage.policies.pilots.servers import OpenServer
from pilotage.policies.pilots.task_queues import element_of, size, starts_pilots

Question = tuple[str, str, int, float, float]


def to_ask(world: World) -> list[ListMatch]:
    """Return the questions about resources that servers have not answered recently.

    Each server gets its own question. One that did not answer is skipped while its breaker is open.
    """
    known = {_key(one) for one in world.list_matches}
    closed = asked_in_vain(world)
    asking = {
        queue.name: queue
        for queue in world.federation.queues
        if starts_pilots(queue) and element_of(queue).list_match
    }
    waiting = sorted(
        (entry.queue, entry.requirements)
        for entry in world.task_queues
        if entry.jobs > 0 and entry.queue in asking
    )
    questions = [
        one
        for name, text in waiting
        for one in _questions(asking[name], Requirements.from_text(text))
        if (one.queue, one.server) not in closed
    ]
    found = {_key(one): one for one in questions}
    return [one for key, one in found.items() if key not in known]


def without_unanswered(world: World) -> World:
    """Return the world without task queues whose servers have not answered yet.

    They take part in the first iteration after an answer, or once all servers are silent.
    """
    unanswered = {_key(one) for one in to_ask(world)}
    if not unanswered:
        return world
    known = {_key(one) for one in world.list_matches if one.resources != 0}
    queues = {queue.name: queue for queue in world.federation.queues if queue.computing_element}

    def is_open(queue: str, requirements: str) -> bool:
        if queue not in queues:
            return True
        asked = {_key(one) for one in _questions(queues[queue], Requirements.from_text(requirements))}
        return bool(asked & known) or not asked & unanswered

    kept = [entry for entry in world.task_queues if is_open(entry.queue, entry.requirements)]
    return replace(world, task_queues=tuple(kept))


class Answers:
    """The recent answers of servers, and those without an answer."""

    def __init__(self, world: World) -> None:
        self._known = {_key(one): one.resources for one in world.list_matches}
        self._silent = asked_in_vain(world)

    def taking(self, queue: Queue, wanted: Requirements, servers: Iterable[OpenServer]) -> list[OpenServer]:
        """Return the servers that accept pilots of a task queue: "no resource" applies to the server that
        said it.

        None is an answer too: a server that cannot tell keeps no pilot away.
        """
        if not element_of(queue).list_match:
            return list(servers)
        open_ = {
            one.server
            for one in _questions(queue, wanted)
            if _key(one) in self._known and self._known[_key(one)] != 0
        }
        return [server for server in servers if server.name in open_]

    def problem(self, queue: Queue, wanted: Requirements) -> str:
        """Return why no server accepts pilots of a task queue, server by server; empty if that is not the
        cause."""
        if not element_of(queue).list_match:
            return ""
        told = list(self._answers(queue, wanted))
        return "" if "" in told else "; ".join(told)

    def _answers(self, queue: Queue, wanted: Requirements) -> Iterator[str]:
        """Yield the answer of each server; empty if it would accept them."""
        for one in _questions(queue, wanted):
            whose = f"server {one.server}" if one.server else "its batch system"
            if _key(one) in self._known:
                yield f"{whose} has no resource for it" if self._known[_key(one)] == 0 else ""
            elif silent := self._silent.get((one.queue, one.server)):
                yield f"{whose} did not answer: {silent.error}"
            else:
                yield f"{whose} has not answered yet"


def problems(world: World) -> list[str]:
    """Return, for each queue with waiting jobs, why none of its servers accepts their pilots, if so."""
    queues = {queue.name: queue for queue in world.federation.queues if starts_pilots(queue)}
    answers = Answers(world)
    found = (
        f"{entry.queue}: {problem}"
        for entry in world.task_queues
        if entry.jobs > 0
        and entry.queue in queues
        and (problem := answers.problem(queues[entry.queue], Requirements.from_text(entry.requirements)))
    )
    return sorted(set(found))


def _questions(queue: Queue, wanted: Requirements) -> list[ListMatch]:
    """Return the question for each server of a queue."""
    cores, memory, walltime = size(wanted, queue, element_of(queue).pilot_slots)
    return [
        ListMatch(queue=queue.name, server=server, cores=cores, memory=memory, walltime=walltime)
        for server in server_names(queue)
    ]


def _key(one: ListMatch) -> Question:
    return one.queue, one.server, one.cores, one.memory, one.walltime
