"""List-match: a server without resources for a task queue gets no pilots, if its queue uses list-match
(P8)."""

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
    """Return the questions about resources without a recent answer.

    Each server gets its own question. Skip a server while its breaker is open because it did not answer.
    """
    answers = {_key(answer) for answer in world.list_matches}
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
        question
        for name, text in waiting
        for question in _questions(asking[name], Requirements.from_text(text))
        if (question.queue, question.server) not in closed
    ]
    by_key = {_key(question): question for question in questions}
    return [question for key, question in by_key.items() if key not in answers]


def without_unanswered(world: World) -> World:
    """Return the world without task queues that still await an answer of a server.

    They take part after the first answer, or once all servers count as silent.
    """
    unanswered = {_key(question) for question in to_ask(world)}
    if not unanswered:
        return world
    accepted = {_key(answer) for answer in world.list_matches if answer.resources != 0}
    queues = {queue.name: queue for queue in world.federation.queues if queue.computing_element}

    def is_open(queue: str, requirements: str) -> bool:
        if queue not in queues:
            return True
        keys = {
            _key(question) for question in _questions(queues[queue], Requirements.from_text(requirements))
        }
        return bool(keys & accepted) or not keys & unanswered

    entries = [entry for entry in world.task_queues if is_open(entry.queue, entry.requirements)]
    return replace(world, task_queues=tuple(entries))


class Answers:
    """Recent answers of servers, and the servers that did not answer."""

    def __init__(self, world: World) -> None:
        self._known = {_key(answer): answer.resources for answer in world.list_matches}
        self._silent = asked_in_vain(world)

    def taking(
        self, queue: Queue, requirements: Requirements, servers: Iterable[OpenServer]
    ) -> list[OpenServer]:
        """Return the servers that accept pilots of a task queue; the answer "no resource" excludes only its
        server.

        None is an answer too: the server does not know, so it accepts pilots.
        """
        if not element_of(queue).list_match:
            return list(servers)
        open_ = {
            question.server
            for question in _questions(queue, requirements)
            if _key(question) in self._known and self._known[_key(question)] != 0
        }
        return [server for server in servers if server.name in open_]

    def problem(self, queue: Queue, requirements: Requirements) -> str:
        """Return the answer of each server if none accepts pilots of a task queue; empty if one does."""
        if not element_of(queue).list_match:
            return ""
        sentences = list(self._answers(queue, requirements))
        return "" if "" in sentences else "; ".join(sentences)

    def _answers(self, queue: Queue, requirements: Requirements) -> Iterator[str]:
        """Yield the answer of each server; empty if it accepts the pilots."""
        for question in _questions(queue, requirements):
            server = f"server {question.server}" if question.server else "its batch system"
            if _key(question) in self._known:
                yield f"{server} has no resource for it" if self._known[_key(question)] == 0 else ""
            elif silent := self._silent.get((question.queue, question.server)):
                yield f"{server} did not answer: {silent.error}"
            else:
                yield f"{server} has not answered yet"


def problems(world: World) -> list[str]:
    """Return for queues with waiting jobs why no server accepts their pilots."""
    queues = {queue.name: queue for queue in world.federation.queues if starts_pilots(queue)}
    answers = Answers(world)
    sentences = (
        f"{entry.queue}: {problem}"
        for entry in world.task_queues
        if entry.jobs > 0
        and entry.queue in queues
        and (problem := answers.problem(queues[entry.queue], Requirements.from_text(entry.requirements)))
    )
    return sorted(set(sentences))


def _questions(queue: Queue, requirements: Requirements) -> list[ListMatch]:
    """Return the question for each server of a queue."""
    cores, memory, walltime = size(requirements, queue, element_of(queue).pilot_slots)
    return [
        ListMatch(queue=queue.name, server=server, cores=cores, memory=memory, walltime=walltime)
        for server in server_names(queue)
    ]


def _key(question: ListMatch) -> Question:
    return question.queue, question.server, question.cores, question.memory, question.walltime
