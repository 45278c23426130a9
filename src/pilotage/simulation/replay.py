"""Replay a saved world: where its waiting jobs would go under other policies, everything else unchanged."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pilotage.flow.planning import plan
from pilotage.model.documents.world import JobCount, World
from pilotage.model.records.states import UNSTARTED_JOBS, JobState
from pilotage.model.records.work import Job
from pilotage.model.values.step_names import BROKER
from pilotage.model.values.types import DESCRIBED
from pilotage.simulation.policies import Policy, changed

WAITING = (JobState.PENDING, JobState.DEFINED, *UNSTARTED_JOBS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One policy's decision about a world's waiting jobs."""

    __pydantic_config__ = DESCRIBED

    queues: Mapping[str, int]
    """Jobs by the queue that they get."""
    left: int
    """Jobs that get no queue."""
    elsewhere: int
    """Jobs with a queue in the world that get another one."""
    to_move: float
    """GB of input missing at the queue's storage. Each file counts once per storage."""


def replay(world: World, policy: Policy) -> Replay:
    """Broker all jobs of a world that have not started, as if none had a queue yet.

    Raises ValueError for a policy that contradicts the world's federation, or that places jobs at random.
    """
    if not policy.is_of_the_brokerage:
        raise ValueError("a saved world is brokered again; placement by chance needs a scenario")
    waiting = {job.id: job for job in world.jobs if job.state in WAITING}
    decision = plan(BROKER, _unbound(world, waiting, policy))
    queues = {
        id_: str(move.changes["queue"])
        for move in decision.moves
        if move.kind == "job" and move.target in UNSTARTED_JOBS
        for id_ in move.ids
    }
    return Replay(
        queues=dict(sorted(Counter(queues.values()).items())),
        left=len(waiting) - len(queues),
        elsewhere=sum(bool(waiting[id_].queue) and waiting[id_].queue != to for id_, to in queues.items()),
        to_move=_to_move(world, waiting, queues),
    )


def _unbound(world: World, waiting: Mapping[int, Job], policy: Policy) -> World:
    """Return the world under a policy, with its waiting jobs DEFINED and counted at no queue."""
    jobs = (
        replace(job, state=JobState.DEFINED, queue="", wake_at=None) if job.id in waiting else job
        for job in world.jobs
    )
    gone = Counter((job.queue, job.share, job.state) for job in waiting.values())
    return replace(
        world,
        federation=changed(world.federation, policy),
        jobs=tuple(jobs),
        job_counts=tuple(_less(world.job_counts, gone)),
    )


def _less(counts: Iterable[JobCount], gone: Mapping[tuple[str, str, JobState], int]) -> Iterable[JobCount]:
    for count in counts:
        jobs = count.jobs - gone.get((count.queue, count.share, count.state), 0)
        if jobs > 0:
            yield replace(count, jobs=jobs)


def _to_move(world: World, waiting: Mapping[int, Job], queues: Mapping[int, str]) -> float:
    storages = {queue.name: queue.storage for queue in world.federation.queues}
    replicas = {(replica.file, replica.storage) for replica in world.replicas}
    sizes = {file.name: file.size for file in world.files}
    needed = {(name, storages[to]) for id_, to in queues.items() for name in waiting[id_].inputs}
    return sum(sizes.get(name, 0) for name, _ in needed - replicas) / 1e9
