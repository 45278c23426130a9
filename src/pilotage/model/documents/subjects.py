"""Subjects of policies: the tasks, transfers, queues and other records that they decide about.

A policy that fails is asked again about a world without some of its subjects, until the one is found that it
fails at. So one bad record costs nobody else a decision.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import astuple, dataclass, replace

from pilotage.model.values.identity import Identity

from .world import World

Key = int | str


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind of subject: its name, those that a world has, and the world without some of them.

    ``keys`` lists them so that those of one person are neighbours; ``owners`` says whose they are, where they
    are anybody's.
    """

    name: str
    keys: Callable[[World], list[Key]]
    without: Callable[[World, Collection[Key]], World]
    owners: Callable[[World], Mapping[Key, Identity]] = lambda _world: {}


def _task_keys(world: World) -> list[Key]:
    nobody = Identity(name="")
    owners = _owners(world)
    found = {
        *owners,
        *(job.task for job in world.jobs),
        *(one.task for one in world.publications),
        *world.lapsed,
    }
    return sorted(found, key=lambda id_: (astuple(owners.get(id_, nobody)), id_))


def _owners(world: World) -> Mapping[Key, Identity]:
    return {task.id: task.owner for task in world.tasks}


def _without_tasks(world: World, ids: Collection[Key]) -> World:
    gone = {job.id for job in world.jobs if job.task in ids}
    return replace(
        world,
        tasks=tuple(task for task in world.tasks if task.id not in ids),
        jobs=tuple(job for job in world.jobs if job.task not in ids),
        ahead=tuple(job for job in world.ahead if job.task not in ids),
        task_counts=tuple(count for count in world.task_counts if count.task not in ids),
        usages=tuple(usage for usage in world.usages if usage.job not in gone),
        failures=tuple(one for one in world.failures if one.task not in ids),
        borrowings=tuple(one for one in world.borrowings if one.job not in gone),
        publications=tuple(one for one in world.publications if one.task not in ids),
        lapsed=tuple(id_ for id_ in world.lapsed if id_ not in ids),
    )


def _without_transfers(world: World, ids: Collection[Key]) -> World:
    """Leave out the transfers, and the jobs that read or made their files: they wait with them."""
    files = {one.file for one in world.transfers if one.id in ids}
    makers = {file.job for file in world.files if file.name in files}
    return replace(
        world,
        transfers=tuple(one for one in world.transfers if one.id not in ids),
        deliveries=tuple(one for one in world.deliveries if one.transfer not in ids),
        unawaited=tuple(id_ for id_ in world.unawaited if id_ not in ids),
        jobs=tuple(job for job in world.jobs if job.id not in makers and files.isdisjoint(job.inputs)),
    )


def _without_pilots(world: World, ids: Collection[Key]) -> World:
    return replace(
        world,
        pilots=tuple(pilot for pilot in world.pilots if pilot.id not in ids),
        jobs=tuple(job for job in world.jobs if job.pilot not in ids),
        submissions=tuple(one for one in world.submissions if one.pilot not in ids),
        sightings=tuple(one for one in world.sightings if one.pilot not in ids),
        heartbeats=tuple(one for one in world.heartbeats if one.pilot not in ids),
        requests=tuple(one for one in world.requests if one.pilot not in ids),
    )


def _without_task_queues(world: World, texts: Collection[Key]) -> World:
    return replace(
        world,
        task_queues=tuple(one for one in world.task_queues if one.requirements not in texts),
        borrowable_lines=tuple(one for one in world.borrowable_lines if one.requirements not in texts),
    )


def _without_queues(world: World, names: Collection[Key]) -> World:
    """Leave out queues with all that is there: nothing begins at them, and nothing is moved from them."""
    federation = world.federation
    gone = {pilot.id for pilot in world.pilots if pilot.queue in names}
    left = replace(
        world,
        federation=replace(
            federation, queues=tuple(queue for queue in federation.queues if queue.name not in names)
        ),
        jobs=tuple(job for job in world.jobs if job.queue not in names),
        task_queues=tuple(one for one in world.task_queues if one.queue not in names),
        borrowable_lines=tuple(one for one in world.borrowable_lines if one.queue not in names),
        queue_reports=tuple(one for one in world.queue_reports if one.queue not in names),
        server_reports=tuple(one for one in world.server_reports if one.queue not in names),
        list_matches=tuple(one for one in world.list_matches if one.queue not in names),
        job_counts=tuple(one for one in world.job_counts if one.queue not in names),
        candidacies=tuple(one for one in world.candidacies if one.queue not in names),
    )
    return _without_pilots(left, gone) if gone else left


def _without_sites(world: World, names: Collection[Key]) -> World:
    """Leave out sites with their storages, and the queues that are there or use these."""
    federation = world.federation
    storages = {storage.name for storage in federation.storages if storage.site in names}
    queues = {queue.name for queue in federation.queues if queue.site in names or queue.storage in storages}
    left = _without_queues(world, queues)
    return replace(
        left,
        federation=replace(
            left.federation,
            sites=tuple(site for site in federation.sites if site.name not in names),
            storages=tuple(storage for storage in federation.storages if storage.name not in storages),
        ),
        advertisements=tuple(one for one in world.advertisements if one.site not in names),
        replicas=tuple(one for one in world.replicas if one.storage not in storages),
    )


def _without_files(world: World, names: Collection[Key]) -> World:
    return replace(
        world,
        copies=tuple(copy for copy in world.copies if copy.file not in names),
        files=tuple(file for file in world.files if file.name not in names),
        replicas=tuple(one for one in world.replicas if one.file not in names),
    )


def _sorted(keys: Iterable[Key]) -> list[Key]:
    return sorted(set(keys), key=lambda key: (str(type(key)), key))


TASK = Subject("task", _task_keys, _without_tasks, _owners)
TRANSFER = Subject("transfer", lambda world: _sorted(one.id for one in world.transfers), _without_transfers)
PILOT = Subject("pilot", lambda world: _sorted(pilot.id for pilot in world.pilots), _without_pilots)
TASK_QUEUE = Subject(
    "task queue",
    lambda world: _sorted(
        one.requirements for found in (world.task_queues, world.borrowable_lines) for one in found
    ),
    _without_task_queues,
)
QUEUE = Subject(
    "queue", lambda world: _sorted(queue.name for queue in world.federation.queues), _without_queues
)
SITE = Subject("site", lambda world: _sorted(site.name for site in world.federation.sites), _without_sites)
FILE = Subject("file", lambda world: _sorted(copy.file for copy in world.copies), _without_files)

SUBJECTS: Mapping[str, Subject] = {
    one.name: one for one in (TASK, TRANSFER, PILOT, TASK_QUEUE, QUEUE, SITE, FILE)
}
"""Every kind of subject by name."""
