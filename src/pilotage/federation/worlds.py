"""Check a world's consistency before anything is decided from it."""

from collections.abc import Hashable, Iterator
from dataclasses import asdict
from itertools import chain, islice

from pydantic import ValidationError

from pilotage import request_budget
from pilotage.federation import world_numbers
from pilotage.federation.brokerage_fields import brokerages
from pilotage.federation.checks import federation_faults
from pilotage.federation.faults import Fault
from pilotage.model.documents.serialization import from_document
from pilotage.model.documents.world import World
from pilotage.model.records.work import Requirements
from pilotage.model.values.software import ArchitectureError, parse_architecture

_KEYS = {"tasks": "id", "jobs": "id", "transfers": "id", "pilots": "id", "files": "name"}
_NUMBERS = {
    "jobs": ("priority", "attempt", "events"),
    "files": ("size",),
    "transfers": ("priority", "attempt"),
    "pilots": ("cores", "memory", "walltime", "matched"),
    "task_queues": ("jobs", "priority"),
    "job_counts": ("jobs",),
    "task_counts": ("jobs",),
    "link_counts": ("files",),
    "queue_reports": ("batch_workers",),
    "requests": ("cores", "memory", "walltime", "max_jobs"),
}
_LARGEST = 10**15


def check_world(world: World) -> list[Fault]:
    """Return every contradiction in a world, which a person may have edited, and in its federation."""
    federation = (
        Fault(("federation", *fault.path), fault.message, fault.remedy)
        for fault in federation_faults(world.federation)
    )
    faults = chain(
        federation, _numbers(world), _names(world), _references(world), _requirements(world), _specs(world)
    )
    return list(islice(faults, request_budget.MOST_FAULTS))


def _numbers(world: World) -> Iterator[Fault]:
    if world.seed < 0:
        yield Fault(("seed",), f"{world.seed} is below 0", "give 0 or more")
    yield from world_numbers.faults(world)
    for kind, names in _NUMBERS.items():
        for at, record in enumerate(getattr(world, kind)):
            for name in names:
                value = getattr(record, name)
                if not 0 <= value <= _LARGEST:
                    yield Fault((kind, at, name), f"{value} is not within 0 to {_LARGEST}", "")


def _names(world: World) -> Iterator[Fault]:
    for kind, key in _KEYS.items():
        first: dict[Hashable, int] = {}
        for at, record in enumerate(getattr(world, kind)):
            name = getattr(record, key)
            if name in first:
                yield Fault((kind, at, key), f"{name!r} is that of {kind}[{first[name]}] already", "keep one")
            first.setdefault(name, at)


def _references(world: World) -> Iterator[Fault]:
    ids = {task.id for task in world.tasks}
    for kind in ("jobs", "task_counts"):
        for at, record in enumerate(getattr(world, kind)):
            if record.task not in ids:
                yield Fault(
                    (kind, at, "task"), f"there is no task {record.task} in this world", "add it to tasks"
                )


def _requirements(world: World) -> Iterator[Fault]:
    # A million jobs share few different requirements: parse each text once.
    sound: dict[str, bool] = {"": False}
    for kind in ("jobs", "task_queues", "pilots"):
        for at, record in enumerate(getattr(world, kind)):
            text = record.requirements
            if text not in sound:
                sound[text] = _sound(text)
            if not sound[text] and (text or kind != "pilots"):
                remedy = "give [vo, group, owner, cores, MB, HS23 s, private, walltime in s] as JSON"
                yield Fault((kind, at, "requirements"), f"{text[:100]!r} does not parse", remedy)


def _sound(text: str) -> bool:
    try:
        requirements = from_document(Requirements, asdict(Requirements.from_text(text)))
    except (ValueError, TypeError, ValidationError, RecursionError):
        return False
    amounts = (requirements.memory, requirements.cpu_time, requirements.walltime, requirements.gpus)
    bounded = 1 <= requirements.cores <= 10**6 and all(0 <= amount <= _LARGEST for amount in amounts)
    return bounded and requirements.cpu_time + requirements.walltime > 0


def _specs(world: World) -> Iterator[Fault]:
    """Yield tasks that no brokerage could read."""
    known_brokerages = brokerages()
    for at, task in enumerate(world.tasks):
        name = task.spec.brokerage
        if name and name not in known_brokerages:
            message = f"there is no brokerage plugin {name!r}"
            yield Fault(
                ("tasks", at, "spec", "brokerage"), message, f"known: {', '.join(sorted(known_brokerages))}"
            )
        try:
            parse_architecture(task.spec.architecture)
        except ArchitectureError as error:
            yield Fault(("tasks", at, "spec", "architecture"), str(error))
