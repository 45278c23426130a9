"""The balanced policy: request the missing pilots, with an exact total (P12)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilotage.model.circuit_breakers.empty_pilots import NEEDS, has_it, is_missed, made_for
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Queue
from pilotage.model.records.states import AT_A_PILOT, WAITING_PILOTS, PilotState
from pilotage.model.records.work import Pilot, Requirements
from pilotage.model.values.durations import HOUR
from pilotage.policies.pilots.apportionment import Floats, Ints, Wants
from pilotage.policies.pilots.circuit_breakers import room
from pilotage.policies.pilots.demand import Demand, is_believed
from pilotage.policies.pilots.fitting import NeedsTable, PilotResources, needs, promised
from pilotage.policies.pilots.task_queues import by_queue, element_of, size

ALMOST = 1e-9
"""Tolerance for rounding errors in a sum of pilots' parts."""

NOBODY = ("", "", "")

PATIENCE = 600.0
"""Seconds to wait for the first pilot with a need before more are sent; the first one learns what nodes
have."""


class Shape(NamedTuple):
    """A pilot's resources for jobs, and the needs that its node lacks. ``fill`` is the work in s that each of
    its slots can take; a slot takes at least one job."""

    has: PilotResources
    lacks: str
    fill: float


def wants(world: World, demand: Demand) -> Wants:
    """Return the missing pilots: enough for all waiting jobs, minus the pilots that are there for them.

    A submitted pilot counts for the jobs that it will take, one after the other: as many as ``work_per_slot``
    s have room for. An idle slot of a running pilot counts for one job. Each pilot, also a new one of this
    iteration, counts for all task queues at its queue that it could serve, not only for its own. None counts
    twice. At most one iteration's number of pilots is made. Half of it is divided by the shares of owners,
    half by jobs.
    """
    present = by_queue(world.pilots)
    busy = _busy(world)
    rows_of_all = len(demand.entries)
    worth, served = np.zeros(rows_of_all), np.zeros(rows_of_all)
    missing = np.zeros(rows_of_all, dtype=np.int64)
    for queue, rows in demand.rows():
        pilots = present.get(queue.name, ())
        limits = _held_back(world, queue.name, pilots, demand.requirements[rows])
        line = Line(world, queue, demand, rows)
        worth[rows] = line.rest
        line.serve(_supply(world, pilots, busy[queue.name], element_of(queue).pilot_slots))
        missing[rows] = line.missing(limits)
        served[rows] = worth[rows] - line.rest
    shares = demand.owner_shares()
    means = shares / shares.sum() + demand.jobs / demand.jobs.sum()
    total = world.federation.director.pilots_per_iteration
    return Wants(
        # Above 0, because weights of room must be.
        means=np.maximum(means * total / 2, 1e-12),
        targets=missing,
        bounds=np.ceil(worth - ALMOST).astype(np.int64),
        waiting=np.floor(served + ALMOST).astype(np.int64),
        total=total,
    )


def _held_back(
    world: World, queue: str, pilots: Sequence[Pilot], requirements: Sequence[Requirements]
) -> Floats:
    """Return the most pilots for each task queue of a queue: a single probe, until a pilot has found a node
    that meets the task queue's need."""
    limits = np.full(len(requirements), np.inf)
    for need, asks in NEEDS.items():
        rows = [at for at, job_needs in enumerate(requirements) if asks(job_needs)]
        free = _room(world, queue, need, made_for(pilots, need)) if rows else 0
        for at in rows:
            limits[at] = min(limits[at], free)
            # One pilot probes, for the first of the task queues.
            free = 0 if free == 1 else free
    return limits


def _room(world: World, queue: str, need: str, sent: Sequence[Pilot]) -> float:
    """Return how many more pilots may be sent for a need. ``sent`` are the pilots sent for it so far."""
    breaker = next((breaker for breaker in world.lacking_nodes if breaker.place == (queue, need)), None)
    if breaker is not None:
        return room(breaker, sent, world.time)
    coming = [pilot for pilot in sent if pilot.state in WAITING_PILOTS]
    if any(has_it(pilot, need) for pilot in sent) or any(_is_slow(world, pilot) for pilot in coming):
        return np.inf
    return 0 if coming else 1


def _is_slow(world: World, pilot: Pilot) -> bool:
    """Return whether a probe has waited so long that others need not wait for it."""
    return world.time - pilot.created >= PATIENCE


def _busy(world: World) -> Counter[str]:
    """Return the jobs that pilots have, by queue."""
    jobs: Counter[str] = Counter()
    for count in world.job_counts:
        if count.state in AT_A_PILOT:
            jobs[count.queue] += count.jobs
    return jobs


def _supply(world: World, pilots: Sequence[Pilot], busy: int, slots: int) -> dict[Shape, float]:
    """Return how many pilots at a queue could take work, by shape: waiting pilots, and the idle part of
    running ones."""
    supply: dict[Shape, float] = {}
    running = [pilot for pilot in pilots if pilot.state is PilotState.RUNNING]
    idle = max(0.0, 1 - busy / (slots * len(running))) if running else 0.0
    for pilot in pilots:
        if pilot.state in WAITING_PILOTS and is_believed(world, pilot):
            shape, part = _shape(pilot, pilot.walltime, world.federation.director.work_per_slot), 1.0
        elif pilot.state is PilotState.RUNNING and idle:
            shape, part = _shape(pilot, _walltime_left(world, pilot), 0), idle
        else:
            continue
        supply[shape] = supply.get(shape, 0.0) + part
    return supply


def _walltime_left(world: World, pilot: Pilot) -> float:
    """Return the remaining walltime of a running pilot in whole hours, so that there are few shapes.

    A pilot that has run nothing counts in full, as it does when it asks (P13).
    """
    return (pilot.walltime - (world.time - pilot.since)) // HOUR * HOUR if pilot.matched else pilot.walltime


def _shape(pilot: Pilot, walltime: float, fill: float) -> Shape:
    has = promised(pilot)._replace(walltime=walltime)
    has = has if pilot.kind == "private" else has._replace(owner=NOBODY)
    return Shape(has, pilot.lacks, min(fill, walltime))


class Line:
    """The task queues at one queue. ``rest`` is the number of new pilots that each needs for jobs without a
    pilot."""

    def __init__(self, world: World, queue: Queue, demand: Demand, rows: slice) -> None:
        self._requirements, self._seconds = demand.requirements[rows], np.maximum(demand.seconds[rows], 1e-6)
        self._table = NeedsTable([needs(requirements, queue) for requirements in self._requirements])
        fill = world.federation.director.work_per_slot
        self._new = [_new(queue, requirements, fill) for requirements in self._requirements]
        self._fill = np.array([shape.fill for shape in self._new])
        self.rest: Floats = demand.jobs[rows] / (demand.slots[rows] * self._jobs_per_slot(self._fill))

    def _jobs_per_slot(self, fill: "Floats | float") -> Floats:
        """Return how many jobs a slot can run one after the other in ``fill`` s, at least one."""
        jobs: Floats = np.maximum(1.0, np.floor(fill / self._seconds))
        return jobs

    def serve(self, supply: Mapping[Shape, float]) -> None:
        """Assign pilots to the task queues that they could serve, the least versatile pilots first."""
        fitting = {shape: self._fitting(shape) for shape in supply}
        for shape in sorted(supply, key=lambda shape: (int(fitting[shape].sum()), shape)):
            self._count(shape, fitting[shape], supply[shape])

    def _count(self, shape: Shape, fitting: NDArray[np.bool_], pilots: float) -> None:
        """Divide pilots among task queues in proportion to their ``rest``."""
        shares = np.where(
            fitting, self.rest * self._jobs_per_slot(self._fill) / self._jobs_per_slot(shape.fill), 0.0
        )
        total = float(shares.sum())
        if total > 0:
            self.rest = np.where(fitting, self.rest * (1 - min(1.0, pilots / total)), self.rest)

    def missing(self, limits: Floats) -> Ints:
        """Return the new pilots of each task queue, at most ``limits`` of each.

        Rounding up leaves a part of a pilot over, which counts for the other task queues.
        """
        missing = np.zeros(len(self._requirements), dtype=np.int64)
        for at in self._most_demanding_first():
            needed = float(self.rest[at])
            # These are sums of fractions: without the margin, a rounding error would add a pilot.
            missing[at] = min(np.ceil(needed - ALMOST), limits[at])
            if (over := missing[at] - needed) > ALMOST:
                beneficiaries = self._fitting(self._new[at])
                beneficiaries[at] = False
                beneficiaries &= missing == 0
                self._count(self._new[at], beneficiaries, over)
        return missing

    def _most_demanding_first(self) -> Iterator[int]:
        table = self._table.needs
        return map(int, np.lexsort((-table.walltime, -table.memory, -table.cores, -table.gpus)))

    def _fitting(self, shape: Shape) -> NDArray[np.bool_]:
        """Return which task queues a pilot could serve (P7). Before it reports, assume that its node has all
        that was requested."""
        fitting = self._table.fitting(shape.has)
        if shape.lacks:
            fitting &= ~np.array(
                [is_missed(shape.lacks, requirements) for requirements in self._requirements], dtype=bool
            )
        return fitting


def _new(queue: Queue, requirements: Requirements, fill: float) -> Shape:
    """Return a new pilot of a task queue. It counts for its owner's jobs alone: it may become private."""
    cores, memory, walltime = size(requirements, queue, element_of(queue).pilot_slots)
    owner = (requirements.vo, requirements.group, requirements.owner)
    has = PilotResources("private", owner, cores, memory or np.inf, np.inf, walltime, containers=True)
    return Shape(has, "", min(fill, walltime))
