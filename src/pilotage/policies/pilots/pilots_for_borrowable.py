"""Pilots at other candidate queues of borrowable jobs: the first pilot to start takes the job (E4)."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from numpy.random import Generator

from pilotage.model.documents.world import TaskQueue, World
from pilotage.model.records.federation import Queue
from pilotage.model.records.states import LIVE_PILOTS
from pilotage.model.records.unified_queues import pilot_limits
from pilotage.policies.pilots.apportionment import apportion
from pilotage.policies.pilots.batch_waits import expected_wait
from pilotage.policies.pilots.demand import believed_waiting, most_waiting
from pilotage.policies.pilots.task_queues import by_queue, element_of, starts_pilots
from pilotage.policies.pilots.weighted_draw import randomness

QueueNeed = tuple[str, str]
"""A queue and requirements."""

AlikeJobs = tuple[str, tuple[str, ...]]
"""Requirements, and the other queues that serve them."""


def pilots_for_borrowable(world: World) -> tuple[TaskQueue, ...]:
    """Return jobs of other queues as task queues of candidates that should request pilots for them (E4).

    For each borrowable job, ``binding.pilots_elsewhere`` pilots wait at all of its other candidates together.
    Each candidate gets a part in proportion to its room divided by the wait of pilots there.
    """
    part = world.federation.binding.pilots_elsewhere
    if not part or not world.borrowable_lines:
        return ()
    random = randomness(world, "elsewhere")
    places = _Places(world)
    entries: list[TaskQueue] = []
    for (requirements, candidates), jobs, priority in _groups(world, places.queues):
        for name, count in places.divide(requirements, candidates, ceil(part * jobs), random):
            entries.append(TaskQueue(queue=name, requirements=requirements, jobs=count, priority=priority))
    return tuple(_together(entries))


def _groups(world: World, served: Mapping[str, Queue]) -> Iterator[tuple[AlikeJobs, int, int]]:
    """Yield the number of borrowable jobs of each group, and their highest priority."""
    by_choice: dict[int, set[str]] = defaultdict(set)
    for candidacy in world.candidacies:
        if candidacy.queue in served:
            by_choice[candidacy.choice].add(candidacy.queue)
    jobs: Counter[AlikeJobs] = Counter()
    priorities: dict[AlikeJobs, int] = {}
    for line in world.borrowable_lines:
        candidates = tuple(sorted(by_choice[line.choice] - {line.queue}))
        if candidates:
            group = line.requirements, candidates
            jobs[group] += line.jobs
            priorities[group] = max(priorities.get(group, 0), line.priority)
    for group in sorted(jobs):
        yield group, jobs[group], priorities[group]


def _together(entries: Sequence[TaskQueue]) -> Iterator[TaskQueue]:
    """Yield one task queue for each place."""
    jobs: Counter[QueueNeed] = Counter()
    priorities: dict[QueueNeed, int] = {}
    for entry in entries:
        place = entry.queue, entry.requirements
        jobs[place] += entry.jobs
        priorities[place] = max(priorities.get(place, 0), entry.priority)
    for (queue, requirements), count in sorted(jobs.items()):
        priority = priorities[queue, requirements]
        yield TaskQueue(queue=queue, requirements=requirements, jobs=count, priority=priority)


@dataclass(slots=True)
class _Places:
    """Queues that start pilots for others' jobs: their free slots, and the wait of pilots there."""

    world: World
    queues: Mapping[str, Queue] = field(init=False)
    _free: dict[str, int] = field(init=False, default_factory=dict)
    _waits: dict[str, float] = field(init=False, default_factory=dict)
    _spare: dict[QueueNeed, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        federation = self.world.federation
        self.queues = {
            queue.name: queue for queue in federation.queues if starts_pilots(queue) and not queue.forwards
        }
        present, limits = by_queue(self.world.pilots), pilot_limits(federation)
        live = Counter(pilot.queue for pilot in self.world.pilots if pilot.state in LIVE_PILOTS)
        for name, queue in self.queues.items():
            pilots = [pilot for pilot in present.get(name, ()) if pilot.state in LIVE_PILOTS]
            room = min(limit.pilots - sum(live[part] for part in limit.queues) for limit in limits[name])
            self._free[name] = max(0, room) * element_of(queue).pilot_slots
            self._waits[name] = expected_wait(pilots, self.world.time)
        jobs = {(entry.queue, entry.requirements): entry.jobs for entry in self.world.task_queues}
        for place, waiting in believed_waiting(self.world).items():
            if place[0] in self.queues:
                slots = element_of(self.queues[place[0]]).pilot_slots
                bound = most_waiting(federation.director, -(-jobs.get(place, 0) // slots))
                self._spare[place] = max(0, waiting - bound) * slots

    def divide(
        self, requirements: str, candidates: Sequence[str], jobs: int, random: Generator
    ) -> Iterator[tuple[str, int]]:
        """Divide jobs: first among waiting pilots beyond their own queue's need, then among free slots."""
        shares: Counter[str] = Counter()
        for name in candidates:
            shares[name] = min(jobs, self._spare.get((name, requirements), 0))
            jobs -= shares[name]
            if shares[name]:
                self._spare[name, requirements] -= shares[name]
        free = np.array([self._free[name] for name in candidates], dtype=np.int64)
        period = max(self.world.federation.director.period, 1.0)
        # Above 0, because weights must be.
        weights = np.array(
            [max(self._free[name], 1e-6) / (period + self._waits[name]) for name in candidates]
        )
        for name, count in zip(candidates, apportion(weights, free, jobs, random).tolist(), strict=True):
            self._free[name] -= count
            if shares[name] + count:
                yield name, shares[name] + count
