"""The draw over task queues as columns: the claims of :mod:`matcher`, without reading a job (P13)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilotage.model.documents.world import MatchRequest
from pilotage.model.records.federation import Queue
from pilotage.model.records.work import Pilot, Requirements
from pilotage.model.values.identity import Identity

from .share_turns import ShareTurns
from .task_queues import is_open, walltime_left, walltime_needed
from .tries import OPEN, Admission
from .weighted_draw import WaitingShares, WeightedDraw, weights


class Level(NamedTuple):
    """Jobs of one task queue that have the same priority."""

    requirements: str
    priority: int
    jobs: int


class Draw(NamedTuple):
    """A job of a task queue, by its priority, whose turn it is."""

    requirements: str
    priority: int


class Most(NamedTuple):
    """The most that any task queue asks for, and whether any is private, or wants a container."""

    cores: int
    memory: float
    gpus: int
    walltime: float
    private: bool
    container: bool


@dataclass(slots=True)
class TaskQueueColumns:
    """The task queues of one queue in the order of their requirements, one a row.

    ``most`` and ``edges``, the sums of the weights with which all of them are drawn, save what a draw would
    compute for each pilot that could run any.
    """

    names: list[str]
    levels: list[list[list[int]]]
    heads: NDArray[np.float64]
    cores: NDArray[np.int64]
    memory: NDArray[np.float64]
    gpus: NDArray[np.int64]
    container: NDArray[np.bool_]
    walltime: NDArray[np.float64]
    private: NDArray[np.bool_]
    owners: NDArray[np.int64]
    shares: NDArray[np.int64]
    share_names: list[str]
    owner_numbers: Mapping[tuple[str, str, str], int]
    places: Mapping[str, int]
    most: Most
    edges: NDArray[np.float64] | None = None

    def left(self, draw: Draw, jobs: int) -> None:
        """Count jobs out that have left a task queue."""
        at = self.places[draw.requirements]
        levels = self.levels[at]
        for level in levels:
            if level[0] == draw.priority:
                level[1] -= jobs
        self.levels[at] = levels = [level for level in levels if level[1] > 0]
        weight = _weight(levels)
        if weight != self.heads[at]:
            self.heads[at] = weight
            self.edges = None

    def less(self, held: Iterable[tuple[str, int, int]]) -> "TaskQueueColumns":
        """The task queues without some of their jobs, which are kept from a pilot."""
        levels, heads = list(self.levels), self.heads.copy()
        for name, priority, jobs in held:
            at = self.places.get(name)
            if at is not None:
                left = [[level, count - jobs * (level == priority)] for level, count in levels[at]]
                levels[at] = [level for level in left if level[1] > 0]
                heads[at] = _weight(levels[at])
        return replace(self, levels=levels, heads=heads, edges=None)

    def head(self, requirements: str) -> int:
        """The priority of the job at the head of a task queue; 0 if there is none."""
        at = self.places.get(requirements)
        levels = [] if at is None else self.levels[at]
        return levels[0][0] if levels else 0


def columns(queue: Queue | None, standing: Iterable[Level]) -> TaskQueueColumns:
    """The task queues of a queue as columns; none where it starts nothing, or is not declared."""
    standing = standing if queue and is_open(queue) else ()
    ordered = sorted(standing, key=lambda level: (level.requirements, -level.priority))
    found = {
        name: [[level.priority, level.jobs] for level in levels if level.jobs > 0]
        for name, levels in groupby(ordered, key=lambda level: level.requirements)
    }
    names = list(found)
    wanted = [Requirements.from_text(name) for name in names]
    keys = [(one.vo, one.group, one.owner) for one in wanted]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    shares = {name: number for number, name in enumerate(dict.fromkeys(one.share for one in wanted))}
    walltime = [walltime_needed(one, queue) for one in wanted] if queue else []
    return TaskQueueColumns(
        names=names,
        levels=list(found.values()),
        heads=np.array([_weight(levels) for levels in found.values()]),
        cores=np.array([one.cores for one in wanted], dtype=np.int64),
        memory=np.array([one.memory for one in wanted]),
        gpus=np.array([one.gpus for one in wanted], dtype=np.int64),
        container=np.array([one.container for one in wanted], dtype=bool),
        walltime=np.array(walltime),
        private=np.array([one.private for one in wanted], dtype=bool),
        owners=np.array([numbers[key] for key in keys], dtype=np.int64),
        shares=np.array([shares[one.share] for one in wanted], dtype=np.int64),
        share_names=list(shares),
        owner_numbers=numbers,
        places={name: place for place, name in enumerate(names)},
        most=_most(wanted, walltime),
    )


def _most(wanted: Sequence[Requirements], walltime: Sequence[float]) -> Most:
    return Most(
        cores=max((one.cores for one in wanted), default=0),
        memory=max((one.memory for one in wanted), default=0),
        gpus=max((one.gpus for one in wanted), default=0),
        walltime=max(walltime, default=0),
        private=any(one.private for one in wanted),
        container=any(one.container for one in wanted),
    )


def draw(
    columns: TaskQueueColumns,
    request: MatchRequest,
    pilot: Pilot,
    seed: int,
    admission: Admission = OPEN,
    turns: ShareTurns | None = None,
) -> list[Draw]:
    """The jobs that one pilot takes, by the task queue and priority of each, in the order of their turns.

    ``admission`` keeps jobs from it that fail fast where it runs (F2).
    ``turns`` are those of the global shares, where there are several; what is drawn is counted there.
    """
    if admission is OPEN and _any_fits(columns.most, request, pilot):
        places = range(len(columns.names))
        shares = WaitingShares.among(columns.shares, columns.share_names, turns) if turns else None
        if columns.edges is None and shares is None:
            columns.edges = weights(columns.heads, columns.owners).cumsum()
        order = WeightedDraw(seed, request.pilot, columns.heads, columns.owners, columns.edges, shares)
        return _several(columns, request, places, order, turns)
    if admission.held:
        columns = columns.less(admission.held)
    fits = _fitting(columns, request, pilot)
    if admission is not OPEN:
        fits &= np.array([admission.takes(key[0], key[2]) for key in columns.owner_numbers], dtype=bool)[
            columns.owners
        ]
    found = np.flatnonzero(fits).tolist()
    if not found:
        return []
    shares = WaitingShares.among(columns.shares[found], columns.share_names, turns) if turns else None
    order = WeightedDraw(seed, request.pilot, columns.heads[found], columns.owners[found], shares=shares)
    return _several(columns, request, found, order, turns)


def _several(
    columns: TaskQueueColumns,
    request: MatchRequest,
    places: Sequence[int],
    order: WeightedDraw,
    turns: ShareTurns | None,
) -> list[Draw]:
    """One job after the other until the pilot has its number, or has no room for what comes up."""
    if len(places) == 1:
        drawn = _of_one(columns, request, places[0])
        if turns is not None:
            turns.give(columns.share_names[columns.shares[places[0]]], len(drawn))
        return drawn
    offers: dict[int, list[int]] = {}
    cores, memory, gpus = request.cores, request.memory or inf, request.gpus
    drawn = []
    while len(drawn) < request.max_jobs and cores >= 1 and (index := order.draw()) is not None:
        at = places[index]
        if columns.cores[at] > cores or columns.memory[at] > memory or columns.gpus[at] > gpus:
            order.follow(index, 0)
            continue
        # Turned round: the next one is taken off the end.
        left = offers.get(index) or _first(columns.levels[at], request.max_jobs)[::-1]
        drawn.append(Draw(columns.names[at], left.pop()))
        offers[index] = left
        order.follow(index, max(1, left[-1]) if left else 0)
        if turns is not None:
            turns.give(columns.share_names[columns.shares[at]])
        cores -= int(columns.cores[at])
        memory -= float(columns.memory[at])
        gpus -= int(columns.gpus[at])
    return drawn


def _of_one(columns: TaskQueueColumns, request: MatchRequest, at: int) -> list[Draw]:
    """The jobs of the only task queue: there is nothing to draw for."""
    cores, memory, gpus = int(columns.cores[at]), float(columns.memory[at]), int(columns.gpus[at])
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
    """The priorities of the first jobs of a task queue."""
    found: list[int] = []
    if levels and levels[0][1] >= count:
        return [levels[0][0]] * count
    for priority, jobs in levels:
        found += [priority] * min(jobs, count - len(found))
        if len(found) == count:
            break
    return found


def _any_fits(most: Most, request: MatchRequest, pilot: Pilot) -> bool:
    """Tell whether the pilot could run the jobs of any task queue, which is so where work is alike."""
    return (
        request.kind == "generic"
        and not most.private
        and most.cores <= request.cores
        and most.gpus <= request.gpus
        and most.memory <= (request.memory or inf)
        and most.walltime <= walltime_left(request, pilot)
        and (request.containers or not most.container)
    )


def _fitting(columns: TaskQueueColumns, request: MatchRequest, pilot: Pilot) -> NDArray[np.bool_]:
    """The task queues with jobs that the pilot could run at all."""
    owner: Identity = request.owner
    fits = (columns.heads > 0) & (columns.cores <= request.cores) & (columns.gpus <= request.gpus)
    fits &= columns.walltime <= walltime_left(request, pilot)
    if not request.containers:
        fits &= ~columns.container
    if request.memory:
        fits &= columns.memory <= request.memory
    if request.kind == "generic":
        return fits & ~columns.private
    # No row has the number -1: an owner without task queues here gets nothing.
    number = columns.owner_numbers.get((owner.vo, owner.group, owner.name), -1)
    fits &= columns.owners == number
    return fits


def _weight(levels: Sequence[Sequence[int]]) -> float:
    """Weight with which a task queue is drawn; 0 if no job is left."""
    return float(max(1, levels[0][0])) if levels else 0.0
