"""Free space of storages: choose the storages to ask, and record their answers (B18)."""

from dataclasses import replace

from pilotage.model.documents.decision import Create, Decision
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Storage
from pilotage.model.records.observations import SpaceSighting
from pilotage.model.records.storage_spaces import GIGABYTE, StorageSpace
from pilotage.model.values.step_names import SURVEY


def due_storages(world: World) -> list[Storage]:
    """Return the storages that were not asked for one period, or have a new URL; longest not asked first."""
    times = {(space.storage, space.url): space.asked for space in world.storage_spaces}
    period = world.federation.brokerage.storage_space_period
    waiting = [
        (times.get((storage.name, storage.url), 0.0), storage.name, storage)
        for storage in world.federation.storages
        if world.time - times.get((storage.name, storage.url), 0.0) >= period
    ]
    return [storage for _, _, storage in sorted(waiting, key=lambda item: item[:2])]


def record(world: World) -> Decision:
    """Record the answers of storages. A storage without an answer keeps its last answer, with its time."""
    before = {(space.storage, space.url): space for space in world.storage_spaces}
    answers = tuple(
        _recorded(sighting, before.get((sighting.storage, sighting.url)))
        for sighting in world.space_sightings
    )
    changes = (Create(records=answers, cause="storages were asked for their free space"),) if answers else ()
    return Decision(step=SURVEY, time=world.time, seed=world.seed, changes=changes)


def _recorded(sighting: SpaceSighting, before: StorageSpace | None) -> StorageSpace:
    if sighting.free is None:
        latest = before or StorageSpace(storage=sighting.storage, url=sighting.url, asked=sighting.time)
        return replace(latest, asked=sighting.time, problem=sighting.problem)
    return StorageSpace(
        storage=sighting.storage,
        url=sighting.url,
        asked=sighting.time,
        told=sighting.time,
        free=sighting.free / GIGABYTE,
        total=None if sighting.total is None else sighting.total / GIGABYTE,
    )
