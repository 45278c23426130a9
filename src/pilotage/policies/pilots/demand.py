"""Demand for pilots: task queues as columns, their priorities, and their owners' shares (P1, P2)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pilotage.model.documents.world import TaskQueue, World
from pilotage.model.records.constants import DirectorConstants
from pilotage.model.records.federation import Queue
from pilotage.model.records.states import WAITING_PILOTS
from pilotage.model.records.work import Pilot, Requirements
from pilotage.policies.pilots.apportionment import Floats, Ints
from pilotage.policies.pilots.task_queues import element_of, seconds_at, starts_pilots
from pilotage.policies.pilots.weighted_draw import owner_shares


@dataclass(frozen=True, slots=True)
class Demand:
    """Task queues with jobs at queues that start pilots, one per row, by queue and requirements.

    ``seconds`` is the walltime of a job at its queue, ``slots`` the number of slots of a pilot there.
    ``elsewhere`` counts the ``jobs`` that wait at other queues (E4).
    """

    entries: Sequence[TaskQueue]
    requirements: Sequence[Requirements]
    queues: Sequence[Queue]
    jobs: Ints
    priorities: Floats
    seconds: Floats
    slots: Ints
    elsewhere: Ints

    def owner_shares(self) -> Floats:
        """Scale priorities so that the sum over each owner's task queues is the owner's highest priority
        (P12).

        So an owner does not gain by spreading work over many task queues, or queues.
        """
        numbers: dict[tuple[str, str, str], int] = {}
        owners = [
            numbers.setdefault((requirements.vo, requirements.group, requirements.owner), len(numbers))
            for requirements in self.requirements
        ]
        return owner_shares(self.priorities, np.array(owners, dtype=np.int64))

    def rows(self) -> list[tuple[Queue, slice]]:
        """Return the rows of each queue."""
        slices: list[tuple[Queue, slice]] = []
        start = 0
        for at in range(1, len(self.queues) + 1):
            if at == len(self.queues) or self.queues[at].name != self.queues[start].name:
                slices.append((self.queues[start], slice(start, at)))
                start = at
        return slices


def demand(
    world: World, requirements: Mapping[str, Requirements], elsewhere: Sequence[TaskQueue] = ()
) -> Demand:
    """Return the task queues that take part. ``requirements`` has their parsed requirements, by text.

    ``elsewhere`` lists jobs of other queues under a queue with pilots that may take them.
    """
    served = {queue.name: queue for queue in world.federation.queues if starts_pilots(queue)}
    by_place = {(entry.queue, entry.requirements): entry for entry in elsewhere}
    busy = sorted(
        _with_others((entry for entry in world.task_queues if entry.queue in served), by_place),
        key=lambda entry: (entry.queue, entry.requirements),
    )
    queues = [served[entry.queue] for entry in busy]
    row_requirements = [requirements[entry.requirements] for entry in busy]
    foreign = (by_place.get((entry.queue, entry.requirements)) for entry in busy)
    return Demand(
        entries=busy,
        requirements=row_requirements,
        queues=queues,
        jobs=np.array([entry.jobs for entry in busy], dtype=np.int64),
        # Work of priority 0 counts as priority 1, so that it gets pilots too.
        priorities=np.array([max(1, entry.priority) for entry in busy], dtype=np.float64),
        seconds=np.array(
            [
                seconds_at(job_requirements, queue)
                for job_requirements, queue in zip(row_requirements, queues, strict=True)
            ]
        ),
        slots=np.array([element_of(queue).pilot_slots for queue in queues], dtype=np.int64),
        elsewhere=np.array([_jobs(entry) for entry in foreign], dtype=np.int64),
    )


def _with_others(
    entries: Iterable[TaskQueue], foreign: Mapping[tuple[str, str], TaskQueue]
) -> Iterator[TaskQueue]:
    """Yield task queues, and add to each the jobs of other queues that its pilots may take."""
    unmatched = dict(foreign)
    for entry in entries:
        addition = unmatched.pop((entry.queue, entry.requirements), None)
        jobs = entry.jobs + _jobs(addition)
        if jobs > 0:
            yield replace(entry, jobs=jobs)
    yield from unmatched.values()


def _jobs(entry: TaskQueue | None) -> int:
    return 0 if entry is None else entry.jobs


def most_waiting(director: DirectorConstants, worth: int) -> int:
    """Return how many pilots may wait for a task queue if ``worth`` pilots have slots for all its jobs
    (P4)."""
    return int((1 + director.extra_pilot_fraction) * worth) + director.extra_pilots if worth else 0


def believed_waiting(world: World) -> Counter[tuple[str, str]]:
    """Return the number of waiting pilots by task queue, without pilots that have waited too long (P4)."""
    return Counter(
        (pilot.queue, pilot.requirements)
        for pilot in world.pilots
        if pilot.state in WAITING_PILOTS and is_believed(world, pilot)
    )


def is_believed(world: World, pilot: Pilot) -> bool:
    """Return whether a live pilot counts for waiting jobs: not if it has waited too long (P4)."""
    longest = world.federation.director.max_pilot_waiting_hours * 3600
    return pilot.state not in WAITING_PILOTS or world.time - pilot.created <= longest
