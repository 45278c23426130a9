"""The balanced policy: as many pilots as are missing, and an exact total (P12)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilotage.model.documents.world import World
from pilotage.model.records.federation import Queue
from pilotage.model.records.states import AT_A_PILOT, WAITING_PILOTS, PilotState
from pilotage.model.records.work import Pilot, Requirements
from pilotage.model.values.durations import HOUR

from .apportionment import Floats, Ints
from .circuit_breakers import after_lacking_ones, room
from .demand import Demand, is_believed
from .fitting import NeedsTable, PilotResources, needs, promised
from .lacking import NEEDS, is_missed, made_for
from .task_queues import by_queue, element_of
from .wants import Wants


class Shape(NamedTuple):
    """A pilot's resources for jobs, and what its node lacks."""

    has: PilotResources
    lacks: str


def wants(world: World, demand: Demand) -> Wants:
    """Return the missing pilots: those needed to take all jobs at once, minus those that could.

    Waiting pilots, and running ones with free slots, count for the task queues at their queue that they could
    serve, whatever they were made for. None counts twice. At most one iteration's number of pilots is made.
    Half of it is divided by the shares of owners, half by jobs.
    """
    present = by_queue(world.pilots)
    busy = _busy(world)
    served, held = np.zeros(len(demand.entries)), np.full(len(demand.entries), np.inf)
    for queue, rows in demand.rows():
        slots = element_of(queue).pilot_slots
        pilots = present.get(queue.name, ())
        supply = _supply(world, pilots, busy[queue.name], slots)
        held[rows] = _held_back(world, queue.name, pilots, demand.wanted[rows])
        served[rows] = _served(queue, demand.wanted[rows], demand.worth[rows], supply)
    # These are sums of fractions: without the margin, a rounding error would add a pilot.
    missing = np.ceil(demand.worth - served - 1e-9).astype(np.int64)
    shares = demand.owner_shares()
    means = shares / shares.sum() + demand.jobs / demand.jobs.sum()
    most = world.federation.director.pilots_per_iteration
    return Wants(
        # Above 0, because weights of room must be.
        means=np.maximum(means * most / 2, 1e-12),
        targets=np.clip(missing, 0, held).astype(np.int64),
        bounds=demand.worth,
        waiting=np.floor(served + 1e-9).astype(np.int64),
        total=most,
    )


def _held_back(world: World, queue: str, pilots: Sequence[Pilot], wanted: Sequence[Requirements]) -> Floats:
    """Return the most pilots for each task queue of a queue whose nodes lack what some of them need."""
    most = np.full(len(wanted), np.inf)
    for need, asks in NEEDS.items() if any(pilot.lacks for pilot in pilots) else ():
        breaker = after_lacking_ones(queue, pilots, need, world.federation.director, world.lifted_breakers)
        left = room(breaker, made_for(pilots, need), world.time)
        for at, one in enumerate(wanted):
            if asks(one):
                most[at] = min(most[at], left)
                # One pilot probes, for the first of the task queues.
                left = 0 if left == 1 else left
    return most


def _busy(world: World) -> Counter[str]:
    """Return the jobs that pilots have, by queue."""
    found: Counter[str] = Counter()
    for count in world.job_counts:
        if count.state in AT_A_PILOT:
            found[count.queue] += count.jobs
    return found


def _supply(world: World, pilots: Sequence[Pilot], busy: int, slots: int) -> dict[Shape, float]:
    """Return the pilots at a queue that could take work, by shape: waiting ones, and the idle part of
    running ones."""
    waiting = Counter(
        _shape(p, p.walltime) for p in pilots if p.state in WAITING_PILOTS and is_believed(world, p)
    )
    supply: dict[Shape, float] = {shape: float(count) for shape, count in waiting.items()}
    running = [pilot for pilot in pilots if pilot.state is PilotState.RUNNING]
    idle = max(0.0, 1 - busy / (slots * len(running))) if running else 0.0
    for pilot in running if idle else ():
        shape = _shape(pilot, _walltime_left(world, pilot))
        supply[shape] = supply.get(shape, 0.0) + idle
    return supply


def _walltime_left(world: World, pilot: Pilot) -> float:
    """Return the remaining walltime of a running pilot in whole hours, so that there are few shapes.

    A pilot that has run nothing counts in full, as it does when it asks (P13).
    """
    return (pilot.walltime - (world.time - pilot.since)) // HOUR * HOUR if pilot.matched else pilot.walltime


def _shape(pilot: Pilot, walltime: float) -> Shape:
    has = promised(pilot)._replace(walltime=walltime)
    return Shape(has if pilot.kind == "private" else has._replace(owner=("", "", "")), pilot.lacks)


def _served(
    queue: Queue, wanted: Sequence[Requirements], worth: Ints, supply: Mapping[Shape, float]
) -> Floats:
    """Return the pilots that count for each task queue.

    Pilots that could serve the fewest come first.
    """
    left = worth.astype(np.float64)
    table = NeedsTable([needs(one, queue) for one in wanted])
    fitting = {shape: _fitting(shape, table, wanted) for shape in supply}
    for shape in sorted(supply, key=lambda shape: (int(fitting[shape].sum()), shape)):
        open_ = np.where(fitting[shape], left, 0.0)
        total = float(open_.sum())
        if total > 0:
            left -= open_ * min(1.0, supply[shape] / total)
    return worth - left


def _fitting(shape: Shape, table: NeedsTable, wanted: Sequence[Requirements]) -> NDArray[np.bool_]:
    """Return which task queues a pilot could serve (P7). Before it reports, its node counts as promised."""
    fitting = table.fitting(shape.has)
    if shape.lacks:
        fitting &= ~np.array([is_missed(shape.lacks, one) for one in wanted], dtype=bool)
    return fitting
