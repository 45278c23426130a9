"""What waits for its hour goes on as soon as a queue would take it (B37)."""

from dataclasses import replace

from pilotage.flow.step import Pass, take
from pilotage.model.decision import Decision, Move
from pilotage.model.states import JobState
from pilotage.model.world import World
from pilotage.store import Store

from . import broker


def run(store: Store, now: Pass) -> int:
    """End the hour of the pending jobs that would be placed now; returns how many."""
    world = store.snapshots.for_broker(now.time, now.seed, limit=now.batch, state=JobState.PENDING)
    return take(store, lifted(world), "lift") if world.jobs else 0


def lifted(world: World) -> Decision:
    """Which pending jobs of this world a brokerage would place: it is asked, as if they were defined."""
    pending = (job for job in world.jobs if job.state is JobState.PENDING)
    defined = replace(world, jobs=tuple(replace(job, state=JobState.DEFINED) for job in pending))
    placed = sorted(
        id_
        for decision in broker.decisions(defined)
        for move in decision.moves
        if move.target in (JobState.ASSIGNED, JobState.ACTIVATED)
        for id_ in move.ids
    )
    move = Move(
        kind="job",
        ids=tuple(placed),
        source=JobState.PENDING,
        target=JobState.DEFINED,
        cause="what it waited for happened (B37)",
        changes={"wake_at": None},
    )
    return Decision(step="lift", time=world.time, seed=world.seed, changes=(move,) if placed else ())
