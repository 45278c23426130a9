"""Free space of storages: which to ask, and what to record of their answers (B18)."""

from dataclasses import replace

from pilotage.model.documents.decision import Create, Decision
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Storage
from pilotage.model.records.observations import SpaceSighting
from pilotage.model.records.storage_spaces import GIGABYTE, StorageSpace
from pilotage.model.values.step_names import SURVEY


def due(world: World) -> list[Storage]:
    """Return storages without a question for one period, or with a new URL; longest without an answer
    first."""
    asked = {(one.storage, one.url): one.asked for one in world.storage_spaces}
    period = world.federation.brokerage.storage_space_period
    waiting = [
        (asked.get((one.name, one.url), 0.0), one.name, one)
        for one in world.federation.storages
        if world.time - asked.get((one.name, one.url), 0.0) >= period
    ]
    return [one for _, _, one in sorted(waiting, key=lambda item: item[:2])]


def record(world: World) -> Decision:
    """Record the answers of storages. A storage without an answer keeps its last answer, with its time."""
    before = {(one.storage, one.url): one for one in world.storage_spaces}
    told = tuple(_recorded(one, before.get((one.storage, one.url))) for one in world.space_sightings)
    changes = (Create(records=told, cause="storages were asked for their free space"),) if told else ()
    return Decision(step=SURVEY, time=world.time, seed=world.seed, changes=changes)


def _recorded(seen: SpaceSighting, before: StorageSpace | None) -> StorageSpace:
    if seen.free is None:
        known = before or StorageSpace(storage=seen.storage, url=seen.url, asked=seen.time)
        return replace(known, asked=seen.time, problem=seen.problem)
    return StorageSpace(
        storage=seen.storage,
        url=seen.url,
        asked=seen.time,
        told=seen.time,
        free=seen.free / GIGABYTE,
        total=None if seen.total is None else seen.total / GIGABYTE,
    )
