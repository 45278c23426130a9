"""What steps and calls see of a store, read without a runtime."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from pilotage.flow.reads import ProcessFields
from pilotage.flow.steps import step
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.store import Pass, Store
from pilotage.store.worlds.broker_facts import OF_JOBS, OF_PLACES, ahead, waiting_jobs
from pilotage.store.worlds.parts import WorldPart

BROKERED = (waiting_jobs(JobState.DEFINED), "tasks", ahead, *OF_JOBS, *OF_PLACES)
"""What the broker reads, also where no job waits."""


def the_world(state: World) -> Sequence[ProcessFields]:
    """What a step declares that sees this world, whatever the store has."""
    names = tuple(one.name for one in fields(World))
    return (ProcessFields(names, lambda *_: {name: getattr(state, name) for name in names}),)


def world_of(
    store: Store,
    reads: str | Sequence[str | WorldPart],
    time: float,
    seed: int,
    limit: int = 1000,
    **bounds: Any,
) -> World:
    """What a step reads of the store, named, or parts of a world, at a time, so many records at most."""
    parts = step(reads).plan.parts if isinstance(reads, str) else reads
    return store.snapshots.read(Pass(time, seed, limit, **bounds), parts)
