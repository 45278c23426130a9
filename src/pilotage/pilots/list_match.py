"""List-match: where it is asked for, no resource, no pilot (P8)."""

from dataclasses import replace

from pilotage.model.federation import Queue
from pilotage.model.observations import ListMatch
from pilotage.model.work import Requirements
from pilotage.model.world import World

from .task_queues import element_of, size, starts_pilots


def to_ask(world: World) -> list[ListMatch]:
    """Return the questions about resources that batch systems have not answered lately."""
    known = {_key(one) for one in world.list_matches}
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
    questions = (_question(asking[name], Requirements.from_text(text)) for name, text in waiting)
    found = {_key(one): one for one in questions}
    return [one for key, one in found.items() if key not in known]


def without_unanswered(world: World) -> World:
    """The world without the task queues for which a batch system was asked and has not answered yet.

    They take part in the first iteration after the answer.
    """
    unanswered = {_key(one) for one in to_ask(world)}
    if not unanswered:
        return world
    queues = {queue.name: queue for queue in world.federation.queues}
    kept = [
        entry
        for entry in world.task_queues
        if entry.queue not in queues
        or queues[entry.queue].computing_element is None
        or _key(_question(queues[entry.queue], Requirements.from_text(entry.requirements))) not in unanswered
    ]
    return replace(world, task_queues=tuple(kept))


class Answers:
    """The recent answers of batch systems."""

    def __init__(self, world: World) -> None:
        self._known = {_key(one): one.resources for one in world.list_matches}

    def problem(self, queue: Queue, wanted: Requirements) -> str:
        """Tell why no pilot of a task queue is submitted now; empty where it may be, or nobody can tell."""
        if not element_of(queue).list_match:
            return ""
        resources = self._known.get(_key(_question(queue, wanted)))
        # None is an answer, too: a batch system that cannot tell keeps no pilot away.
        return "its batch system has no resource for it" if resources == 0 else ""


def _question(queue: Queue, wanted: Requirements) -> ListMatch:
    cores, memory, walltime = size(wanted, queue)
    return ListMatch(queue=queue.name, cores=cores, memory=memory, walltime=walltime)


def _key(one: ListMatch) -> tuple[str, int, float, float]:
    return one.queue, one.cores, one.memory, one.walltime
