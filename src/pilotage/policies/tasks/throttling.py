"""Throttle jobs beyond a quota of live jobs, and release them in order as room appears (rules T)."""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from pilotage.model.documents.decision import Move
from pilotage.model.documents.world import World
from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.records.states import JobState
from pilotage.model.records.work import Job, NewJob
from pilotage.model.rules.job_rooms import JobRooms
from pilotage.model.values.identity import Identity

RELEASED = "its quotas of live jobs have room"


def released(world: World, rooms: JobRooms, limit: int) -> tuple[Move, ...]:
    """Release throttled jobs that have room, and count them in ``rooms``.

    Release an owner's jobs in the order of submission. If several owners compete for room, the one with the
    fewest live jobs is next, so that a backlog does not delay other owners.
    """
    owners = {task.id: task.owner for task in world.tasks}
    waiting: dict[tuple[str, str, str], deque[Job]] = defaultdict(deque)
    for job in sorted(world.jobs, key=lambda job: (job.task, job.id)):
        if job.state is JobState.THROTTLED:
            owner = owners[job.task]
            waiting[owner.vo, owner.group, owner.name].append(job)
    turns = [(rooms.live(owners[owner_jobs[0].task]), key) for key, owner_jobs in waiting.items()]
    heapify(turns)
    free: list[Job] = []
    while turns and len(free) < limit:
        _, key = heappop(turns)
        owner_jobs = waiting[key]
        owner = owners[owner_jobs[0].task]
        if rooms.room(owner) <= 0:
            continue
        rooms.release(owner)
        free.append(owner_jobs.popleft())
        if owner_jobs:
            heappush(turns, (rooms.live(owner), key))
    return (_move(free, world.federation.quotas),) if free else ()


def _move(jobs: Sequence[Job], quotas: QuotaConstants) -> Move:
    ordered = sorted(jobs, key=lambda job: job.id)
    return Move(
        kind="job",
        ids=tuple(job.id for job in ordered),
        attempts=tuple(job.attempt for job in ordered),
        source=JobState.THROTTLED,
        target=JobState.DEFINED,
        cause=RELEASED,
        job_quotas=quotas,
    )


def admitted(jobs: tuple[NewJob, ...], owner: Identity, rooms: JobRooms) -> tuple[NewJob, ...]:
    """Return new jobs of an owner, some of them throttled.

    Throttle jobs beyond its room, and all jobs while earlier ones are throttled.
    """
    free = 0 if rooms.has_backlog(owner) else min(len(jobs), rooms.room(owner))
    rooms.take(owner, free)
    if free == len(jobs):
        return jobs
    return (*jobs[:free], *(replace(job, throttled=True) for job in jobs[free:]))
