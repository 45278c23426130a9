"""Weights and limits that change while jobs are placed: B30 to B33, B36, and the spreading of jobs (B38)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.random import default_rng

from pilotage.brokerage.engine.check import Label, Verdict
from pilotage.brokerage.engine.job_groups import Group
from pilotage.brokerage.engine.queue_columns import Codes, Column, Mask, QueueColumns
from pilotage.brokerage.engine.task_columns import TaskColumns
from pilotage.brokerage.engine.verdicts import Reasons
from pilotage.model.decision import Ordering, Refusal
from pilotage.model.states import JobState
from pilotage.model.world import World

from .extensions import CandidateOrder, Ranking, keys_of

BOOTSTRAP = 20.0
CROWDED = Label(
    rule="B36", name="waiting jobs", mend="wait", unit="jobs", lifted_by="jobs of the queue start"
)


def capacity(queues: QueueColumns, jobs: Mapping[JobState, Column]) -> Column:
    """B30: R, the largest of what runs, what batch workers promise, and the declared slots.

    ``jobs`` are those of one global share; workers, running and submitted, serve all shares.
    """
    running = jobs[JobState.RUNNING]
    workers = queues.live.batch_workers
    promised = np.where((running < BOOTSTRAP) & (workers > running), np.minimum(workers, BOOTSTRAP), 0)
    dynamic = np.where(queues.num_slots == 0, jobs[JobState.STARTING], 0)
    slots: Column = np.maximum.reduce([running, promised, queues.num_slots, dynamic])
    return slots


def initial_weight(slots: Column, waiting: Column, assigned: Column, activated: Column) -> Column:
    """B32: (R+1) / ((waiting+10) x many), many being assigned/activated within 1..2.

    ``waiting`` is activated+assigned+starting+defined. With nothing activated, many is 2 if any is assigned.
    """
    many: Column | float = 1.0
    if assigned.any():
        ratio = np.divide(assigned, activated, out=np.where(assigned > 0, 2.0, 1.0), where=activated > 0)
        many = np.minimum(np.maximum(ratio, 1), 2)
    weight: Column = (slots + 1) / ((waiting + 10) * many)
    return weight


def data_weight(tasks: TaskColumns, row: int, storages: Codes) -> Column:
    """B33 for one task's group of jobs at these storages; 1 where there is no input."""
    table, kind = tasks.input_table, int(tasks.inputs[row, 0])
    files, size = table.files[kind, 0], table.size[kind, 0]
    if files == 0:
        return np.ones(len(storages))
    missing = table.missing_files[kind, storages]
    # Files without bytes are there or not by their number.
    share = 1 - (table.missing_size[kind, storages] / size if size > 0 else missing / files)
    weight: Column = (share + 1) / (missing / 100 + 1)
    return weight


def spread(jobs: int, weights: Column, room: Column) -> list[int]:
    """B38: how many jobs each candidate takes, as if each job in turn took the highest weight there is.

    ``weights`` (C, K) holds the weight a candidate has once it took 0, 1, 2 ... jobs, falling along a row;
    ``room`` (C,) what it may take at most. Equal weights go to the candidate that stands first.
    """
    offered = np.where(np.arange(weights.shape[1]) < room[:, None], weights, -np.inf)
    takes = min(jobs, int(np.isfinite(offered).sum()))
    if takes == 0:
        return [0] * len(room)
    least = -np.partition(-offered, takes - 1, axis=None)[takes - 1]
    taken = (offered > least).sum(axis=1)
    ties = (offered == least).sum(axis=1)
    before = np.cumsum(ties) - ties
    counts: list[int] = (taken + np.clip(takes - taken.sum() - before, 0, ties)).tolist()
    return counts


def fill(jobs: int, room: Column) -> list[int]:
    """Count the jobs of each candidate where they are filled one after another, each to its room (C,)."""
    before = np.cumsum(np.floor(room)) - np.floor(room)
    counts: list[int] = np.clip(jobs - before, 0, np.floor(room)).astype(int).tolist()
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Queues that passed every check, best first (codes), their weight by rule, and what each may take.

    ``ordering`` is what put them in this order, where it was not their weight.
    """

    queues: Codes
    weights: Column
    factors: dict[str, Column]
    room: Column
    local: Mask
    ordering: Ordering | None = None


NOWHERE = Standing(
    queues=np.zeros(0, dtype=np.intp),
    weights=np.zeros(0),
    factors={},
    room=np.zeros(0),
    local=np.zeros(0, dtype=bool),
)
"""No queue passed."""


class Limit:
    """The most jobs that may wait at each queue, (Q,): 2R, but never below ``nqueue_limit_site`` (B36).

    Where the input of jobs is everywhere, a queue once crowded stays so: ``lasting`` keeps these refusals.
    """

    def __init__(self, jobs: Column) -> None:
        self.jobs = jobs
        self.needs = jobs.astype(object)[None, :]
        self.lasting: tuple[Verdict, tuple[Refusal, ...]] | None = None


class Ledgers:
    """The ledger of each global share: a share that floods a queue does not shut the others out."""

    def __init__(self, world: World, queues: QueueColumns, order: CandidateOrder | None = None) -> None:
        self._queues = queues
        self._order = order
        self._ties = Ties(world.seed, len(queues))
        self._of: dict[str, Ledger] = {}

    def of(self, share: str) -> "Ledger":
        """Its ledger for this cycle."""
        if share not in self._of:
            self._of[share] = Ledger(self._queues, share, self._ties, self._order)
        return self._of[share]


class Ties:
    """Draws the order of queues that weigh the same, anew for each group, with the world's seed (B37)."""

    def __init__(self, seed: int, queues: int) -> None:
        self._random = default_rng(seed)
        self._order = self._random.permutation(queues)
        self._shift = 0

    def draw(self) -> None:
        """Draw for the next group."""
        self._shift = int(self._random.integers(len(self._order)))

    def of(self, queues: Codes) -> Column:
        """The place of each of these queues among equals."""
        places: Column = (self._order[queues] + self._shift) % len(self._order)
        return places


class Ledger:
    """Counts of a share's jobs that wait at each queue in this cycle, those placed in it included (B38)."""

    def __init__(
        self, queues: QueueColumns, share: str, ties: Ties, order: CandidateOrder | None = None
    ) -> None:
        jobs = queues.live.of_share(share)
        self._queues = queues
        self._ties = ties
        self._order = order
        self.slots = capacity(queues, jobs)
        self._limits: dict[int, Limit] = {}
        self._assigned = jobs[JobState.ASSIGNED].copy()
        self._activated = jobs[JobState.ACTIVATED].copy()
        self._near = jobs[JobState.DEFINED] + self._activated + jobs[JobState.STARTING]
        self._everywhere = np.ones(len(queues), dtype=bool)

    def limit(self, group: Group) -> "Limit":
        """The limit on waiting jobs at each queue, for jobs like these (B36)."""
        constants = group.policy.constants
        least = constants.nqueue_limit_site_by_share.get(group.share, constants.nqueue_limit_site)
        if least not in self._limits:
            self._limits[least] = Limit(np.maximum(2 * self.slots, least))
        return self._limits[least]

    def local(self, tasks: TaskColumns, row: int) -> Mask:
        """Queues whose storage has all the input of these jobs (B31)."""
        kind = int(tasks.inputs[row, 0])
        if tasks.input_table.files[kind, 0] == 0:
            return self._everywhere
        mask: Mask = (tasks.input_table.missing_files[kind] == 0)[self._queues.storage]
        return mask

    def crowded(self, local: Mask, limit: "Limit") -> Verdict:
        """B36: activated+starting, or all that waits, are more than 2R; assigned count as B31 says.

        The first is never more than the second, so the second decides.
        """
        waiting = self._waiting(local)
        return Verdict((waiting > limit.jobs)[None, :], limit.needs, waiting)

    def crowded_reasons(
        self, local: Mask, limit: "Limit", reasons: Reasons
    ) -> tuple[Verdict, tuple[Refusal, ...]]:
        """B36 with its reasons. Where input is local, a crowded queue never gets a job: they last a cycle."""
        if local is self._everywhere and limit.lasting is not None:
            return limit.lasting
        verdict = self.crowded(local, limit)
        found = verdict, tuple(reasons.of(CROWDED, verdict, verdict.refused).values())
        if local is self._everywhere:
            limit.lasting = found
        return found

    def rank(
        self,
        group: Group,
        tasks: TaskColumns,
        row: int,
        local: Mask,
        fits: Mask,
        further: Mapping[str, Column],
    ) -> Standing:
        """The queues that fit, by weight or as they are ordered; ties are drawn (B37).

        ``further`` are other factors (Q,) by rule.
        """
        self._ties.draw()
        chosen = fits.nonzero()[0]
        if not len(chosen):
            return NOWHERE
        near = local[chosen]
        assigned = np.where(near, 0, self._assigned[chosen])
        waiting = self._near[chosen] + assigned
        factors = {
            "B32": initial_weight(self.slots[chosen], waiting, assigned, self._activated[chosen]),
            "B33": data_weight(tasks, row, self._queues.storage[chosen]),
        }
        if "B34" not in group.policy.off:
            factors["B34"] = tasks.links.weight[int(tasks.nucleus[row, 0])][chosen]
        factors |= {rule: values[chosen] for rule, values in further.items()}
        weights = reduce(np.multiply, factors.values())
        order, ordering = self._in_order(group, chosen, weights, factors)
        best = chosen[order]
        return Standing(
            queues=best,
            weights=weights[order],
            factors={rule: values[order] for rule, values in factors.items()},
            room=self.limit(group).jobs[best] - waiting[order],
            local=near[order],
            ordering=ordering,
        )

    def _in_order(
        self, group: Group, chosen: Codes, weights: Column, factors: Mapping[str, Column]
    ) -> tuple[Codes, Ordering | None]:
        if self._order is None:
            return np.lexsort((self._ties.of(chosen), -weights)), None
        ranking = Ranking(
            group=group, queues=self._queues, candidates=chosen, weights=weights, factors=factors
        )
        keys = keys_of(self._order, ranking)
        order = np.lexsort((self._ties.of(chosen), -weights, keys))
        ordering = Ordering(
            rule=self._order.rule,
            name=self._order.name,
            keys=tuple(keys[order].tolist()),
            unit=self._order.unit,
        )
        return order, ordering

    def place(self, group: Group, standing: Standing) -> list[tuple[int, bool, int]]:
        """Spreads the jobs over the best candidates that have room: (queue, whether local, jobs) of each."""
        most = group.policy.constants.max_candidates
        best = (standing.room >= 1).nonzero()[0][:most]
        if not len(best):
            return []
        placed = []
        counts = self._counts(len(group.jobs), standing, best)
        for position, count in zip(best.tolist(), counts, strict=False):
            if count:
                queue, local = int(standing.queues[position]), bool(standing.local[position])
                self._take(queue, local, count)
                placed.append((queue, local, count))
        return placed

    def _counts(self, jobs: int, standing: Standing, best: Codes) -> list[int]:
        if jobs == 1:
            return [1]
        room = standing.room[best]
        if standing.ordering is not None:
            return fill(jobs, room)
        taken = np.arange(min(jobs, int(room.max())))
        return spread(jobs, self._falling(standing, best, taken), room)

    def _waiting(self, local: Mask) -> Column:
        if local is self._everywhere:
            return self._near
        return self._near + np.where(local, 0, self._assigned)

    def _falling(self, standing: Standing, best: Codes, taken: Column) -> Column:
        """The weights of these candidates once each took 0, 1, 2 ... of the jobs: (C, K)."""
        queues, local = standing.queues[best, None], standing.local[best, None]
        assigned = np.where(local, 0, self._assigned[queues] + taken)
        waiting = self._near[queues] + np.where(local, taken, assigned)
        activated = np.broadcast_to(self._activated[queues], assigned.shape)
        rest = reduce(np.multiply, (values for rule, values in standing.factors.items() if rule != "B32"))
        weights: Column = initial_weight(self.slots[queues], waiting, assigned, activated) * rest[best, None]
        return weights

    def _take(self, queue: int, local: bool, jobs: int) -> None:
        if local:
            self._activated[queue] += jobs
            self._near[queue] += jobs
        else:
            self._assigned[queue] += jobs
