"""What a pilot and a task queue have to do with each other (P1, P7, P13)."""

from math import inf

import numpy as np

from pilotage.model.federation import Queue
from pilotage.model.identity import Identity
from pilotage.model.work import PilotKind, Requirements
from pilotage.model.world import World

CLOSED = ("offline", "paused")
"""Statuses in which a queue starts nothing: it is given no pilots, and the pilots there are given no jobs."""


def is_open(queue: Queue) -> bool:
    """Whether the queue starts anything. A queue without new brokerage still works off what it has."""
    return queue.status not in CLOSED


def may_run(kind: PilotKind, owner: Identity, wanted: Requirements) -> bool:
    """Whether such a pilot may run such jobs (P7): its owner's and group's, or if generic all non-private."""
    if kind == "generic":
        return not wanted.private
    return (owner.vo, owner.group, owner.name) == (wanted.vo, wanted.group, wanted.owner)


def walltime_needed(wanted: Requirements, queue: Queue) -> float:
    """The walltime, in s, that a pilot must have left for these jobs.

    CPU time is rounded up to a segment (P1), which may be more than a queue gives though the job itself
    fits there (B21): then all that the queue gives is enough.
    """
    return min(wanted.cpu_time, queue.max_walltime or inf)


def randomness(world: World, *names: str) -> np.random.Generator:
    """Random numbers that depend on the world's seed and these names alone, not on the order of records."""
    return np.random.default_rng([world.seed, *"\0".join(names).encode()])
