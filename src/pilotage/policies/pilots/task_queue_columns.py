"""The draw over task queues as columns, which ``matcher`` uses; it reads no jobs (P13)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilotage.model.records.federation import Queue
from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.work import Pilot, Requirements
from pilotage.policies.pilots.fitting import NeedsTable, fits, needs, offered, promised
from pilotage.policies.pilots.probes import OPEN, Admission
from pilotage.policies.pilots.share_turns import ShareTurns
from pilotage.policies.pilots.task_queues import is_open, walltime_left
from pilotage.policies.pilots.weighted_draw import WaitingShares, WeightedDraw, weights


class Level(NamedTuple):
    """Jobs of one task queue with the same priority."""

    requirements: str
    priority: int
    jobs: int


class Draw(NamedTuple):
    """A drawn job, given by its task queue and priority."""

    requirements: str
    priority: int


@dataclass(slots=True)
class TaskQueueColumns:
    """The task queues of one queue in the order of their requirements, one per row.

    ``edges`` are the running sums of all their weights, cached for draws for pilots that fit all task queues.
    """

    names: list[str]
    levels: list[list[list[int]]]
    heads: NDArray[np.float64]
    table: NeedsTable
    shares: NDArray[np.int64]
    share_names: list[str]
    places: Mapping[str, int]
    secrets: NDArray[np.bool_]
    edges: NDArray[np.float64] | None = None

    def remove(self, draw: Draw, jobs: int) -> None:
        """Subtract jobs that have left a task queue."""
        at = self.places.get(draw.requirements)
        if at is None:
            return
        levels = self.levels[at]
        for level in levels:
            if level[0] == draw.priority:
                level[1] -= jobs
        self.levels[at] = levels = [level for level in levels if level[1] > 0]
        weight = _weight(levels)
        if weight != self.heads[at]:
            self.heads[at] = weight
            self.edges = None

    def less(self, withheld: Iterable[tuple[str, int, int]]) -> "TaskQueueColumns":
        """Return the task queues without jobs that are withheld from a pilot."""
        levels, heads = list(self.levels), self.heads.copy()
        for name, priority, jobs in withheld:
            at = self.places.get(name)
            if at is not None:
                rest = [[level, count - jobs * (level == priority)] for level, count in levels[at]]
                levels[at] = [level for level in rest if level[1] > 0]
                heads[at] = _weight(levels[at])
        return replace(self, levels=levels, heads=heads, edges=None)

    def head(self, requirements: str) -> int:
        """Return the priority of a task queue's first job; 0 if there is none."""
        at = self.places.get(requirements)
        levels = [] if at is None else self.levels[at]
        return levels[0][0] if levels else 0


def columns(queue: Queue | None, standing: Iterable[Level]) -> TaskQueueColumns:
    """Return the task queues of a queue as columns; no rows if the queue is closed, or not declared."""
    standing = standing if queue and is_open(queue) else ()
    ordered = sorted(standing, key=lambda level: (level.requirements, -level.priority))
    levels_of = {
        name: [[level.priority, level.jobs] for level in levels if level.jobs > 0]
        for name, levels in groupby(ordered, key=lambda level: level.requirements)
    }
    names = list(levels_of)
    requirements = [Requirements.from_text(name) for name in names]
    shares = {
        name: number for number, name in enumerate(dict.fromkeys(needed.share for needed in requirements))
    }
    return TaskQueueColumns(
        names=names,
        levels=list(levels_of.values()),
        heads=np.array([_weight(levels) for levels in levels_of.values()]),
        table=NeedsTable([needs(needed, queue) for needed in requirements] if queue else []),
        shares=np.array([shares[needed.share] for needed in requirements], dtype=np.int64),
        share_names=list(shares),
        places={name: place for place, name in enumerate(names)},
        secrets=np.array([needed.secrets for needed in requirements], dtype=np.bool_),
    )


def draw(
    columns: TaskQueueColumns,
    request: MatchRequest,
    pilot: Pilot,
    seed: int,
    admission: Admission = OPEN,
    turns: ShareTurns | None = None,
) -> list[Draw]:
    """Return the jobs that one pilot takes, by task queue and priority, in the order of the draw.

    ``admission`` withholds jobs that fail fast where it runs (F2), and jobs with secrets that the server
    cannot decrypt. ``turns`` orders the global shares, if there are several. It counts the drawn jobs.
    """
    has, owners = offered(request, pilot), columns.table.needs.owner
    # If the pilot fits the highest needs, it could run the jobs of any task queue.
    if admission is OPEN and fits(columns.table.most, has):
        places = range(len(columns.names))
        shares = WaitingShares.among(columns.shares, columns.share_names, turns) if turns else None
        if columns.edges is None and shares is None:
            columns.edges = weights(columns.heads, owners).cumsum()
        order = WeightedDraw(seed, request.pilot, columns.heads, owners, columns.edges, shares)
        return _several(columns, request, places, order, turns)
    if admission.withheld:
        columns = columns.less(admission.withheld)
    fitting = (columns.heads > 0) & columns.table.fitting(has)
    if admission is not OPEN:
        fitting &= _admitted(columns, admission)
    rows = np.flatnonzero(fitting).tolist()
    if not rows:
        return []
    shares = WaitingShares.among(columns.shares[rows], columns.share_names, turns) if turns else None
    order = WeightedDraw(seed, request.pilot, columns.heads[rows], owners[rows], shares=shares)
    return _several(columns, request, rows, order, turns)


def _admitted(columns: TaskQueueColumns, admission: Admission) -> NDArray[np.bool_]:
    """Return for each task queue whether an admission lets a pilot have its jobs."""
    people, owners = columns.table.numbers, columns.table.needs.owner
    admitted: NDArray[np.bool_] = np.array([admission.takes(vo, name) for vo, _, name in people], dtype=bool)[
        owners
    ]
    if admission.unreadable:
        gives = np.array([admission.gives_secrets(vo, name) for vo, _, name in people], dtype=bool)
        admitted &= gives[owners] | ~columns.secrets
    return admitted


def _several(
    columns: TaskQueueColumns,
    request: MatchRequest,
    places: Sequence[int],
    order: WeightedDraw,
    turns: ShareTurns | None,
) -> list[Draw]:
    """Draw jobs until the pilot has as many as requested, or no room."""
    if len(places) == 1:
        drawn = _of_one(columns, request, places[0])
        if turns is not None:
            turns.give(columns.share_names[columns.shares[places[0]]], len(drawn))
        return drawn
    offers: dict[int, list[int]] = {}
    needed = columns.table.needs
    cores, memory, gpus = request.cores, request.memory or inf, request.gpus
    drawn = []
    while len(drawn) < request.max_jobs and cores >= 1 and (index := order.draw()) is not None:
        at = places[index]
        if needed.cores[at] > cores or needed.memory[at] > memory or needed.gpus[at] > gpus:
            order.follow(index, 0)
            continue
        # Reverse the list: the next one is popped from the end.
        priorities = offers.get(index) or _first(columns.levels[at], request.max_jobs)[::-1]
        drawn.append(Draw(columns.names[at], priorities.pop()))
        offers[index] = priorities
        order.follow(index, max(1, priorities[-1]) if priorities else 0)
        if turns is not None:
            turns.give(columns.share_names[columns.shares[at]])
        cores -= int(needed.cores[at])
        memory -= float(needed.memory[at])
        gpus -= int(needed.gpus[at])
    return drawn


def _of_one(columns: TaskQueueColumns, request: MatchRequest, at: int) -> list[Draw]:
    """Return the jobs of the only task queue, without a draw."""
    needed = columns.table.needs
    cores, memory, gpus = int(needed.cores[at]), float(needed.memory[at]), int(needed.gpus[at])
    free_cores, free_memory, free_gpus = request.cores, request.memory or inf, request.gpus
    drawn: list[Draw] = []
    for priority in _first(columns.levels[at], request.max_jobs):
        if free_cores < max(1, cores) or memory > free_memory or gpus > free_gpus:
            break
        drawn.append(Draw(columns.names[at], priority))
        free_cores -= cores
        free_memory -= memory
        free_gpus -= gpus
    return drawn


def _first(levels: Sequence[Sequence[int]], count: int) -> list[int]:
    """Return the priorities of a task queue's first jobs."""
    priorities: list[int] = []
    if levels and levels[0][1] >= count:
        return [levels[0][0]] * count
    for priority, jobs in levels:
        priorities += [priority] * min(jobs, count - len(priorities))
        if len(priorities) == count:
            break
    return priorities


def unfit_jobs(columns: TaskQueueColumns, request: MatchRequest, pilot: Pilot) -> int:
    """Return how many jobs of these task queues a pilot could not run even if all its slots were free.

    A lack of GPUs or of programs for containers does not count: another pilot's node would lack them too.
    """
    has = promised(pilot)._replace(
        cores=max(request.cores, pilot.cores),
        memory=max(request.memory, pilot.memory) if request.memory else inf,
        walltime=walltime_left(request, pilot),
    )
    places = np.flatnonzero((columns.heads > 0) & ~columns.table.fitting(has)).tolist()
    return sum(jobs for place in places for _, jobs in columns.levels[place])


def _weight(levels: Sequence[Sequence[int]]) -> float:
    """Return the weight of a task queue in the draw; 0 if no job is left."""
    return float(max(1, levels[0][0])) if levels else 0.0
