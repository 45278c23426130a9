"""Credentials of persons and groups: their private pilots are submitted with them (P7, P9)."""

from dataclasses import replace

from pilotage.model.documents.world import World
from pilotage.model.records.federation import Queue
from pilotage.model.records.requirements import Requirements
from pilotage.model.records.work import PilotKind
from pilotage.policies.pilots.task_queues import element_of, starts_pilots


def credential_of(queue: Queue, requirements: Requirements, kind: PilotKind) -> str:
    """Return the credential for new pilots of a task queue; empty: the computing element's common one."""
    return element_of(queue).credential_of(requirements.identity) if kind == "private" else ""


def problem(world: World, queue: Queue, requirements: Requirements) -> str:
    """Return why no private pilot of a task queue can be submitted now, and what to do; empty if one can.

    The common credential never takes the place of the owner's: the site would count the work as others'.
    """
    name = credential_of(queue, requirements, "private")
    unusable = (
        each for each in world.unusable_credentials if (each.queue, each.credential) == (queue.name, name)
    )
    return next(
        (f"the credential of {each.credential} cannot be used: {each.reason}" for each in unusable), ""
    )


def obstacle(world: World, queue: Queue, requirements: Requirements) -> str:
    """Return the ``problem`` of a task queue that only private pilots may serve; else empty."""
    only_private = requirements.private or "generic" not in element_of(queue).pilot_kinds
    return problem(world, queue, requirements) if only_private else ""


def without_obstructed(world: World) -> World:
    """Return the world without task queues that get no pilots for want of a credential: others get the
    room."""
    if not world.unusable_credentials:
        return world
    queues = {queue.name: queue for queue in world.federation.queues if queue.computing_element}
    entries = [
        entry
        for entry in world.task_queues
        if entry.queue not in queues
        or not obstacle(world, queues[entry.queue], Requirements.from_text(entry.requirements))
    ]
    return replace(world, task_queues=tuple(entries))


def problems(world: World) -> list[str]:
    """Return for queues with waiting jobs which credentials of their owners cannot be used."""
    if not world.unusable_credentials:
        return []
    queues = {queue.name: queue for queue in world.federation.queues if starts_pilots(queue)}
    sentences = (
        f"{entry.queue}: {reason}"
        for entry in world.task_queues
        if entry.jobs > 0
        and entry.queue in queues
        and (reason := problem(world, queues[entry.queue], Requirements.from_text(entry.requirements)))
    )
    return sorted(set(sentences))
