"""Subjects of policies: the tasks, transfers, queues and other records that policies decide about.

A policy that fails decides again about worlds without some of its subjects, until the faulty one is found. So
one bad record does not block decisions about the others.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

from pilotage.model.documents.world import World
from pilotage.model.values.identity import Identity

Key = int | str


RECORDS_OF: Mapping[str, Mapping[str, str]] = {
    "task": {
        "tasks": "id",
        "lapsed": "",
        **dict.fromkeys(("jobs", "ahead", "task_counts", "failures"), "task"),
        **dict.fromkeys(("publications", "notifications", "stages"), "task"),
    },
    "job": dict.fromkeys(("usages", "borrowings"), "job"),
    "transfer": {"transfers": "id", "unawaited": "", "deliveries": "transfer"},
    "pilot": {
        "pilots": "id",
        **dict.fromkeys(("jobs", "submissions", "sightings", "heartbeats", "requests"), "pilot"),
    },
    "task queue": dict.fromkeys(("task_queues", "borrowable_lines"), "requirements"),
    "queue": dict.fromkeys(
        (
            *("jobs", "task_queues", "borrowable_lines", "job_counts", "candidacies", "queue_reports"),
            *("server_reports", "list_matches", "levels", "unusable_credentials"),
        ),
        "queue",
    ),
    "site": dict.fromkeys(("advertisements", "held_places"), "site"),
    "storage": {"replicas": "storage"},
    "file": {"files": "name", **dict.fromkeys(("copies", "replicas"), "file")},
}
"""The fields of a world with records of a kind of subject, and the attribute that names it in each. Empty,
where the field has nothing but the subjects' names."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind of subject: its name, a world's subjects of this kind, and the world without some of them.

    ``keys`` lists one person's subjects next to each other. ``owners`` maps the subjects to their owners, if
    they have any.
    """

    name: str
    keys: Callable[[World], list[Key]]
    without: Callable[[World, Collection[Key]], World]
    owners: Callable[[World], Mapping[Key, Identity]] = lambda _world: {}


def _task_keys(world: World) -> list[Key]:
    nobody = Identity(name="")
    owners = _owners(world)
    keys = {
        *owners,
        *(job.task for job in world.jobs),
        *(record.task for record in world.publications),
        *(record.task for record in world.notifications),
        *world.lapsed,
    }
    return sorted(keys, key=lambda id_: (astuple(owners.get(id_, nobody)), id_))


def _owners(world: World) -> Mapping[Key, Identity]:
    return {task.id: task.owner for task in world.tasks}


def _without(world: World, kind: str, keys: Collection[Key], **changes: Any) -> World:
    """Leave out the records of some subjects; ``changes`` are new values of other fields."""
    rest: dict[str, Any] = {
        name: tuple(
            record for record in getattr(world, name) if (getattr(record, key) if key else record) not in keys
        )
        for name, key in RECORDS_OF[kind].items()
    }
    return replace(world, **rest, **changes)


def _without_tasks(world: World, ids: Collection[Key]) -> World:
    gone = {job.id for job in world.jobs if job.task in ids}
    return _without(_without(world, "task", ids), "job", gone)


def _without_transfers(world: World, ids: Collection[Key]) -> World:
    """Return the world without these transfers, and without jobs that read or made their files: these wait
    with them."""
    files = {transfer.file for transfer in world.transfers if transfer.id in ids}
    makers = {file.job for file in world.files if file.name in files}
    jobs = (job for job in world.jobs if job.id not in makers and files.isdisjoint(job.inputs))
    return _without(world, "transfer", ids, jobs=tuple(jobs))


def _without_queues(world: World, names: Collection[Key]) -> World:
    """Return the world without these queues and all their work: nothing starts there, and nothing moves
    from there."""
    gone = {pilot.id for pilot in world.pilots if pilot.queue in names}
    queues = tuple(queue for queue in world.federation.queues if queue.name not in names)
    rest = _without(world, "queue", names, federation=replace(world.federation, queues=queues))
    return _without(rest, "pilot", gone) if gone else rest


def _without_sites(world: World, names: Collection[Key]) -> World:
    """Return the world without these sites, their storages, and the queues there or with these storages."""
    federation = world.federation
    gone = {storage.name for storage in federation.storages if storage.site in names}
    queues = {queue.name for queue in federation.queues if queue.site in names or queue.storage in gone}
    rest = _without(_without_queues(world, queues), "site", names)
    sites = tuple(site for site in federation.sites if site.name not in names)
    storages = tuple(storage for storage in federation.storages if storage.name not in gone)
    return _without(
        rest, "storage", gone, federation=replace(rest.federation, sites=sites, storages=storages)
    )


def _sorted(keys: Iterable[Key]) -> list[Key]:
    return sorted(set(keys), key=lambda key: (str(type(key)), key))


TASK = Subject("task", _task_keys, _without_tasks, _owners)
TRANSFER = Subject(
    "transfer", lambda world: _sorted(transfer.id for transfer in world.transfers), _without_transfers
)
PILOT = Subject(
    "pilot",
    lambda world: _sorted(pilot.id for pilot in world.pilots),
    lambda world, ids: _without(world, "pilot", ids),
)
TASK_QUEUE = Subject(
    "task queue",
    lambda world: _sorted(
        line.requirements for lines in (world.task_queues, world.borrowable_lines) for line in lines
    ),
    lambda world, texts: _without(world, "task queue", texts),
)
QUEUE = Subject(
    "queue", lambda world: _sorted(queue.name for queue in world.federation.queues), _without_queues
)
SITE = Subject("site", lambda world: _sorted(site.name for site in world.federation.sites), _without_sites)
FILE = Subject(
    "file",
    lambda world: _sorted(copy.file for copy in world.copies),
    lambda world, names: _without(world, "file", names),
)

SUBJECTS: Mapping[str, Subject] = {
    subject.name: subject for subject in (TASK, TRANSFER, PILOT, TASK_QUEUE, QUEUE, SITE, FILE)
}
"""Every kind of subject by name."""
