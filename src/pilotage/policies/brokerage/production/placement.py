"""Weights and limits that change while jobs are placed: B30 to B32, B36, and the spreading of jobs (B38)."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pilotage.model.documents.decision import Label, Ordering
from pilotage.model.documents.reasons import Given, PackedCandidates, PackedRefusal
from pilotage.model.records.states import JobState
from pilotage.policies.brokerage.engine.arrays import Codes, Column, Mask
from pilotage.policies.brokerage.engine.job_groups import Group
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.verdicts import FactsDraft, bits_of, plain
from pilotage.policies.brokerage.production.candidates import Pairs
from pilotage.policies.brokerage.production.checks.status import NO_PILOTS_AFTER
from pilotage.policies.brokerage.production.extensions import CandidateOrder, Ranking, keys_of
from pilotage.policies.brokerage.production.ties import Ties

BOOTSTRAP = 20.0
CROWDED = Label(
    rule="B36", name="waiting jobs", mend="wait", unit="jobs", lifted_by="jobs of the queue start"
)


def capacity(queues: QueueColumns, jobs: Mapping[JobState, Column]) -> Column:
    """B30: return R, the largest of running jobs, promised batch workers, and ``num_slots``.

    The slots of our own pilots count as ``num_slots`` while pilots call (B26). ``jobs`` counts jobs of one
    global share. Workers, running and submitted, serve all shares.
    """
    running = jobs[JobState.RUNNING]
    workers = queues.live.batch_workers
    promised = np.where((running < BOOTSTRAP) & (workers > running), np.minimum(workers, BOOTSTRAP), 0)
    dynamic = np.where(queues.num_slots == 0, jobs[JobState.STARTING], 0)
    slots: Column = np.maximum.reduce([running, promised, queues.num_slots, _own_slots(queues), dynamic])
    return slots


def _own_slots(queues: QueueColumns) -> Column:
    """B30: return the slots of our own pilots.

    All slots count if a pilot called lately, at most 20 if none ever called, else none.
    """
    silent = queues.live.time - queues.live.last_pilot
    untried = np.where(np.isnan(silent), np.minimum(queues.own_slots, BOOTSTRAP), 0)
    slots: Column = np.where(silent <= NO_PILOTS_AFTER, queues.own_slots, untried)
    return slots


def initial_weight(slots: Column, waiting: Column, assigned: Column, activated: Column) -> Column:
    """B32: return (R+1) / ((waiting+10) x ratio), where ratio is assigned/activated, kept within 1..2.

    ``waiting`` is activated+assigned+starting+defined. Without activated jobs, ratio is 2 if any is assigned.
    """
    ratio: Column | float = 1.0
    if assigned.any():
        ratio = np.divide(assigned, activated, out=np.where(assigned > 0, 2.0, 1.0), where=activated > 0)
        ratio = np.minimum(np.maximum(ratio, 1), 2)
    weight: Column = (slots + 1) / ((waiting + 10) * ratio)
    return weight


def cells_of(column: Column) -> "memoryview[float]":
    """Return a view of a column's cells: numpy takes three times as long for a single number."""
    return memoryview(column).cast("B").cast("d")  # type: ignore[arg-type]


def weight_of_one(slots: float, waiting: float, assigned: float, activated: float) -> float:
    """Return the weight of B32 for a single queue: arrays are slow for one number."""
    ratio = 1.0
    if assigned > 0:
        ratio = min(max(assigned / activated, 1.0), 2.0) if activated > 0 else 2.0
    return (slots + 1) / ((waiting + 10) * ratio)


def spread(jobs: int, weights: Column, room: Column) -> list[int]:
    """B38: return how many jobs each candidate takes if each job in turn goes to the highest weight.

    ``weights`` (C, K) holds a candidate's weight after 0, 1, 2 ... jobs, falling along a row. ``room`` (C,)
    is the most that it may take. Equal weights go to the first candidate.
    """
    offered = np.where(np.arange(weights.shape[1]) < room[:, None], weights, -np.inf)
    takes = min(jobs, int(np.isfinite(offered).sum()))
    if takes == 0:
        return [0] * len(room)
    # The weight of the last placed job. All higher weights are used, and as many equal ones as needed.
    least = -np.partition(-offered, takes - 1, axis=None)[takes - 1]
    above = (offered > least).sum(axis=1)
    ties = (offered == least).sum(axis=1)
    # Number of equal weights at earlier candidates.
    before = np.cumsum(ties) - ties
    counts: list[int] = (above + np.clip(takes - above.sum() - before, 0, ties)).tolist()
    return counts


def fill(jobs: int, room: Column) -> list[int]:
    """Return the jobs of each candidate if candidates are filled in order, each up to its room (C,)."""
    before = np.cumsum(np.floor(room)) - np.floor(room)
    counts: list[int] = np.clip(jobs - before, 0, np.floor(room)).astype(int).tolist()
    return counts


@dataclass(frozen=True, slots=True)
class Crowd:
    """Queues where more jobs of a share wait than allowed (B36), and the numbers of waiting jobs.

    ``near`` counts waiting jobs except assigned ones, ``waiting`` all; it applies where input is missing
    (B31).
    """

    queues: Codes
    near: Column
    waiting: Column


class Limit:
    """The most jobs of a share that may wait at each queue (Q,): 2R, or ``nqueue_limit_site`` if that is more
    (B36).

    ``room`` (2Q) is the remaining room: first where input is missing, then where it is at the queue.
    """

    def __init__(self, jobs: Column, ledger: "Ledger", facts: FactsDraft) -> None:
        self.jobs = jobs
        self.room = np.concatenate([jobs, jobs]) - ledger.waiting
        self._cells = cells_of(jobs), cells_of(self.room)
        self._ledger = ledger
        self._crowd: Crowd | None = None
        self._label = facts.label(CROWDED)
        self._need = facts.column(jobs)
        over = np.flatnonzero(self.room[len(jobs) :] < 0)
        # Copy it: the ledger will change, but the reason describes the present.
        has = facts.column(ledger.waiting[len(jobs) :].copy())
        self.everywhere = self._refusal(over, has)
        """The refusal for jobs without input. They count as ``near`` at every queue, and a full queue stays
        full."""

    @property
    def crowd(self) -> Crowd:
        """Return the queues that are full now: the same object until that changes."""
        if self._crowd is None:
            size, waiting = len(self.jobs), self._ledger.waiting
            over = np.flatnonzero(self.room[:size] < 0)
            self._crowd = Crowd(over, waiting[over + size], waiting[over])
        return self._crowd

    def refusal(self, crowd: Crowd, local: Mask) -> PackedRefusal | None:
        """Return the refusal by full queues, for jobs with their input at the ``local`` queues (Q,)."""
        has = np.where(local[crowd.queues], crowd.near, crowd.waiting)
        over = has > self.jobs[crowd.queues]
        return self._refusal(crowd.queues[over], plain(has[over]))

    def _refusal(self, queues: Codes, has: Given) -> PackedRefusal | None:
        if not len(queues):
            return None
        mask = np.zeros(len(self.jobs), dtype=bool)
        mask[queues] = True
        bits = bits_of(mask).tobytes()
        return PackedRefusal(label=self._label, queues=bits, need=self._need, have=has)

    def update(self, queue: int, waiting: float, near: float) -> None:
        """Update the remaining room at a queue, given the numbers of jobs that wait there now."""
        limits, room = self._cells
        room[queue] = limits[queue] - waiting
        room[queue + len(limits)] = limits[queue] - near
        if limits[queue] < waiting:
            self._crowd = None


class Ledger:
    """Counts of a share's waiting jobs at each queue, including jobs placed in this cycle (B38).

    ``waiting`` and ``weight`` (B32) have two halves, (2Q): first for jobs without their input at the queue,
    then for jobs with it (B31).
    """

    def __init__(self, queues: QueueColumns, share: str, facts: FactsDraft) -> None:
        jobs = queues.live.of_share(share)
        self.together = queues.together
        self._facts = facts
        self.slots = capacity(queues, jobs)
        self.running = jobs[JobState.RUNNING]
        self._limits: dict[int, Limit] = {}
        # Assigned jobs count only where input is missing (B31), so the second half has none.
        self.assigned = np.concatenate([jobs[JobState.ASSIGNED], np.zeros(len(queues))])
        self.activated = np.tile(jobs[JobState.ACTIVATED], 2)
        near = jobs[JobState.DEFINED] + jobs[JobState.ACTIVATED] + jobs[JobState.STARTING]
        self.waiting = np.tile(near, 2) + self.assigned
        self.weight = initial_weight(np.tile(self.slots, 2), self.waiting, self.assigned, self.activated)
        columns = (self.slots, self.waiting, self.assigned, self.activated, self.weight)
        self._cells = tuple(map(cells_of, columns))

    @property
    def near(self) -> Column:
        """Return the jobs that wait at each queue (Q,) with their input there."""
        near: Column = self.waiting[len(self.slots) :]
        return near

    def limit(self, group: Group) -> Limit:
        """Return the limit on waiting jobs at each queue, for jobs like these (B36)."""
        constants = group.policy.constants
        least = constants.nqueue_limit_site_by_share.get(group.share, constants.nqueue_limit_site)
        if least not in self._limits:
            self._limits[least] = Limit(np.maximum(2 * self.slots, least), self, self._facts)
        return self._limits[least]

    def take(self, queue: int, local: bool, jobs: int) -> None:
        """Count jobs placed at a queue, also at the queues that count together with it (B2)."""
        for place in self.together.queues(queue):
            self._take(place, local, jobs)

    def _take(self, queue: int, local: bool, jobs: int) -> None:
        slots, waiting, assigned, activated, weight = self._cells
        here = queue + len(slots)
        waiting[queue] += jobs
        if local:
            waiting[here] += jobs
            activated[queue] += jobs
            activated[here] += jobs
        else:
            assigned[queue] += jobs
        for part in (queue, here):
            weight[part] = weight_of_one(slots[queue], waiting[part], assigned[part], activated[part])
        for limit in self._limits.values():
            limit.update(queue, waiting[queue], waiting[here])

    def falling(self, places: Codes, jobs: Column) -> Column:
        """B32: return the weights at these places after each has taken 0, 1, 2 ... jobs: (C, K)."""
        places = places[:, None]
        size = len(self.slots)
        local = places >= size
        waiting = self.waiting[places] + jobs
        assigned = np.where(local, 0, self.assigned[places] + jobs)
        activated = np.broadcast_to(self.activated[places], assigned.shape)
        return initial_weight(self.slots[places % size], waiting, assigned, activated)


class Contest:
    """The queues that fit a group, with their weights at its turn: columns over its pairs.

    ``keys`` has their sort keys, if they are not ordered by weight. ``drawn`` breaks ties.
    """

    __slots__ = ("drawn", "keys", "load", "pairs", "queues", "room", "task", "weights")

    def __init__(self, pairs: Pairs, task: int, ledger: Ledger, limit: Limit, drawn: int) -> None:
        span = pairs.span(task)
        places = pairs.places[span]
        self.pairs = pairs
        self.task = task
        self.queues = pairs.queues[span]
        self.drawn = drawn
        self.load = ledger.weight.take(places)
        self.room = limit.room.take(places)
        self.weights = self.load * pairs.rest[span]
        self.keys: Column | None = None

    @property
    def places(self) -> Codes:
        """Return the places of its pairs in a ledger's columns."""
        return self.pairs.places[self.pairs.span(self.task)]

    def has_room(self, limit: Limit) -> bool:
        """Return whether any fitting queue has room for another job after these placements."""
        return bool((limit.room.take(self.places) >= 1).any())

    def best(self, ties: Ties) -> int:
        """Return the index of the pair with the highest weight among pairs with room; -1 if none has room."""
        weights = self.weights
        if not len(weights):
            return -1
        # Usually a single queue has the highest weight, and has room.
        first = int(weights.argmax())
        if self.room[first] >= 1 and first + int(weights[::-1].argmax()) == len(weights) - 1:
            return first
        # Weights are positive, so -1 means no room.
        weights = np.where(self.room >= 1, weights, -1.0)
        if weights[first := int(weights.argmax())] < 0:
            return -1
        equal = (weights == weights[first]).nonzero()[0]
        return int(equal[ties.of(self.queues[equal], self.drawn).argmin()])

    def order(self, chosen: Codes, ties: Ties) -> Codes:
        """Sort some pairs, best first. Ties are drawn (B37)."""
        drawn = ties.of(self.queues[chosen], self.drawn)
        keys = () if self.keys is None else (self.keys[chosen],)
        return chosen[np.lexsort((drawn, -self.weights[chosen], *keys))]

    def set_keys(self, group: Group, queues: QueueColumns, order: CandidateOrder) -> None:
        """Set the sort keys of queues that are not full, by an order other than by weight."""
        chosen = self.uncrowded
        ranking = Ranking(
            group=group,
            queues=queues,
            candidates=self.queues[chosen],
            weights=self.weights[chosen],
            factors={rule: values[chosen] for rule, values in self._factors().items()},
        )
        # Full queues come last in any order.
        self.keys = np.full(len(self.room), np.inf)
        self.keys[chosen] = keys_of(order, ranking)

    def packed(self, ties: Ties, max_candidates: int, order: CandidateOrder | None) -> PackedCandidates:
        """Return all candidates that were not full, in order."""
        best = self.order(self.uncrowded, ties)
        if not len(best):
            return PackedCandidates(weights=array("d"), most=max_candidates)
        ordering = None
        if order is not None and self.keys is not None:
            keys = tuple(self.keys[best].tolist())
            ordering = Ordering(rule=order.rule, name=order.name, keys=keys, unit=order.unit)
        return PackedCandidates(
            queues=array("I", self.queues[best].astype(np.uint32).tobytes()),
            factors={rule: _floats(values[best]) for rule, values in self._factors().items()},
            room=array("q", np.floor(self.room[best]).astype(np.int64).tobytes()),
            ordering=ordering,
            most=max_candidates,
        )

    @property
    def uncrowded(self) -> Codes:
        """Return the pairs with queues that are not above their limit of waiting jobs."""
        chosen: Codes = (self.room >= 0).nonzero()[0]
        return chosen

    def _factors(self) -> Mapping[str, Column]:
        return {"B32": self.load, **self.pairs.factors_of(self.task)}


def _floats(values: Column) -> "array[float]":
    return array("d", np.ascontiguousarray(values, dtype=float).tobytes())


Placed = tuple[int, bool, int]
"""A queue, whether all input is there, and the number of jobs that it takes."""


class Ledgers:
    """The ledger of each global share. Shares count separately, so that one that floods a queue does not
    block the others."""

    def __init__(self, queues: QueueColumns, facts: FactsDraft) -> None:
        self._queues = queues
        self._facts = facts
        self._of: dict[str, Ledger] = {}

    def of(self, share: str) -> Ledger:
        """Return the ledger of a share for this cycle."""
        if share not in self._of:
            self._of[share] = Ledger(self._queues, share, self._facts)
        return self._of[share]


def place(group: Group, standing: Contest, ledger: Ledger, ties: Ties) -> Sequence[Placed]:
    """Spread the jobs over the best candidates with room, and count them there."""
    # Most groups have one job. Sorting all candidates for it would take most of the cycle.
    if len(group.jobs) == 1 and standing.keys is None:
        best = standing.best(ties)
        chosen, counts = ([best], [1]) if best >= 0 else ([], [])
    else:
        chosen, counts = _spread_over_best(group, standing, ledger, ties)
    placed = []
    places, size = standing.places, len(ledger.slots)
    for pair, count in zip(chosen, counts, strict=True):
        if count:
            local, queue = divmod(int(places[pair]), size)
            ledger.take(queue, bool(local), count)
            placed.append((queue, bool(local), count))
    return placed


def _spread_over_best(
    group: Group, standing: Contest, ledger: Ledger, ties: Ties
) -> tuple[list[int], list[int]]:
    best = standing.order((standing.room >= 1).nonzero()[0], ties)
    if ledger.together:
        # Pseudo-queues share their room, so only the best of them takes jobs.
        best = best[np.sort(np.unique(ledger.together.first[standing.queues[best]], return_index=True)[1])]
    best = best[: group.policy.constants.max_candidates]
    if not len(best):
        return [], []
    room, jobs = standing.room[best], len(group.jobs)
    if standing.keys is not None:
        return best.tolist(), fill(jobs, room)
    numbers = np.arange(min(jobs, int(room.max())))
    rest = standing.pairs.rest[standing.pairs.span(standing.task)][best, None]
    weights = ledger.falling(standing.places[best], numbers) * rest
    return best.tolist(), spread(jobs, weights, room)
