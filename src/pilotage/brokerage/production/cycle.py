"""The production brokerage: which queue each group of like jobs goes to, and why (B1 to B38)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pilotage.brokerage.engine.drafts import DecisionDraft
from pilotage.brokerage.engine.job_groups import Group, groups_of
from pilotage.brokerage.engine.options import Options
from pilotage.brokerage.engine.queue_columns import Column, QueueColumns
from pilotage.brokerage.engine.verdicts import Examination, Reasons, examine
from pilotage.model.counters import JOBS_BY_QUEUE
from pilotage.model.decision import Candidates, Choice, Claim, Decision, Refusal
from pilotage.model.federation import Federation
from pilotage.model.states import QUEUED_JOBS, JobState
from pilotage.model.world import World

from .checks import CHECKS, Check
from .checks.status import waived_status
from .extensions import CandidateOrder, Extensions, Factor
from .placement import Ledgers, Limit, Standing
from .waivers import Examined, Examiner

BLOCK = 1 << 18
"""Pairs of task and queue examined at once: what fits a processor's cache."""

OPTIONAL_RULES = (frozenset(check.rule for check in CHECKS) - {"B2"}) | {"B34"}
"""What may be switched off: not the choice of queues by the task (B2), nor B36, which bounds what waits."""

PREFERRED, PREFERRED_BY_SCOUTS = 4.0, 100.0
"""Weight of the nucleus for work of high priority and for scouts that only prefer it (B8)."""

_NEAR_STATES = tuple(state for state in QUEUED_JOBS if state is not JobState.ASSIGNED)


class Production:
    """Groups of like jobs, by global share, priority and age, each spread over its best queues.

    Jobs whose input is at the queue are ACTIVATED, others ASSIGNED; each move claims its room within B36.
    Jobs are PENDING (B37) only where every queue is refused for some other reason than B36. Where B36 alone
    stands in the way, or the best queues took what they may, jobs stay DEFINED for the next pass, and the
    choice says how many are ``left``: any job that starts makes room, and room is never waited for an hour.

    Its options are ``off``, the rules that are switched off, and ``by_vo``, which has for a VO the rules off
    beside these, and ``constants`` in place of the federation's. Organisations add ``checks`` and ``factors``
    to the rules, and may give the candidates another ``order``.
    """

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        *,
        checks: Sequence[Check] = (),
        factors: Sequence[Factor] = (),
        order: CandidateOrder | None = None,
    ) -> None:
        self._extensions = Extensions(tuple(checks), tuple(factors), order)
        rules = OPTIONAL_RULES | {check.rule for check in checks}
        self._options = Options.of(options or {}, rules)
        self._declared: tuple[Federation, QueueColumns] | None = None

    def decide(self, world: World) -> Decision:
        """Moves of the world's DEFINED jobs, with a choice for each group of like jobs."""
        queues = self._columns(world.federation).during(world)
        groups = groups_of(world, queues, self._options)
        cycle = _Cycle(world, queues, self._extensions)
        rows = max(1, BLOCK // len(queues))
        for start in range(0, len(groups), rows):
            cycle.decide(groups[start : start + rows])
        return cycle.decision()

    def _columns(self, federation: Federation) -> QueueColumns:
        """Built once for each federation document. Several threads may ask at once, each for its own."""
        declared = self._declared
        if declared is None or declared[0] is not federation:
            declared = self._declared = (federation, QueueColumns.of(federation))
        return declared[1]


class _Cycle:
    """One pass over the groups: the moves and choices so far, and what they took."""

    def __init__(self, world: World, queues: QueueColumns, extensions: Extensions) -> None:
        self._time = world.time
        self._queues = queues
        self._extensions = extensions
        checks = (*CHECKS, *extensions.checks)
        self._ledgers = Ledgers(world, queues, extensions.order)
        self._asks = {(check.rule, check.name): check.asks for check in checks if check.asks}
        self._reasons = Reasons(queues)
        self._examiner = Examiner(checks, queues, self._reasons)
        self._draft = DecisionDraft(world, queues)

    def decision(self) -> Decision:
        """The moves and choices of the groups so far."""
        return self._draft.decision()

    def decide(self, groups: Sequence[Group]) -> None:
        """Examine the groups together, then place one after another, as each changes the counts."""
        weighed: dict[int, dict[str, Column]] = {}
        named: dict[int, Examination] = {}
        for one in self._examiner.examine(groups):
            tasks = one.tasks
            if id(tasks) not in weighed:
                weighed[id(tasks)] = self._extensions.weigh(tasks, self._queues)
                named[id(tasks)] = examine((waived_status,), tasks, self._queues, self._reasons)
            factors = {rule: values[one.row] for rule, values in weighed[id(tasks)].items()}
            waived = (*named[id(tasks)].refusals[one.row], *one.waived)
            self._decide(replace(one, waived=waived), _preferring(one) | factors)

    def _asking(self, group: Group, refusals: Sequence[Refusal]) -> tuple[Refusal, ...]:
        """The same, with the task fields behind each need: what these jobs could ask for instead."""
        asks = self._asks
        return tuple(
            refusal.asking(ask(group)) if (ask := asks.get((refusal.rule, refusal.name))) else refusal
            for refusal in refusals
        )

    def _decide(self, one: Examined, factors: Mapping[str, Column]) -> None:
        """Move the jobs of one group, and add the choice that explains it."""
        group, tasks, row, willing = one.group, one.tasks, one.row, one.willing
        refusals = tuple(one.refusals) if willing.any() else self._asking(group, one.refusals)
        ledger = self._ledgers.of(group.share)
        local, limit = ledger.local(tasks, row), ledger.limit(group)
        crowded, full = ledger.crowded_reasons(local, limit, self._reasons)
        fits = willing & ~crowded.refused[0]
        standing = ledger.rank(group, tasks, row, local, fits, factors)
        placed = ledger.place(group, standing)
        moved = self._place(group, placed, limit) if willing.any() else self._suspend(group)
        self._draft.explain(
            Choice(
                task=group.task.id,
                job_kind=group.kind,
                jobs=moved,
                placed={str(self._queues.names[queue]): jobs for queue, _, jobs in placed},
                considered=len(self._queues),
                candidates=_candidates(standing, self._queues, group.policy.constants.max_candidates),
                refusals=refusals + full,
                left=len(group.jobs) - len(moved),
                waived=one.waived,
            )
        )

    def _place(self, group: Group, placed: Sequence[tuple[int, bool, int]], limit: Limit) -> tuple[int, ...]:
        """Send the oldest jobs to the best queue, and so on; returns those that went anywhere."""
        moved = 0
        for queue, local, jobs in placed:
            claim = Claim(
                counter=JOBS_BY_QUEUE,
                key=(str(self._queues.names[queue]), group.share),
                states=_NEAR_STATES if local else QUEUED_JOBS,
                limit=int(limit.jobs[queue]),
            )
            ids = group.jobs[moved : moved + jobs]
            self._draft.place(ids, queue, local=local, cause="brokered (B38)", claims=(claim,))
            moved += jobs
        return group.jobs[:moved]

    def _suspend(self, group: Group) -> tuple[int, ...]:
        until = self._time + group.policy.constants.pending_time
        return self._draft.suspend(group, "no queue fits (B37)", until)


def _preferring(one: Examined) -> dict[str, Column]:
    """The factor of scouts and work of high priority that prefer their nucleus (B8), by rule."""
    group, nucleus = one.group, int(one.tasks.nucleus[one.row, 0])
    scout = group.kind == "scout"
    prefers = one.tasks.prefers_nucleus[one.row, 0] and (scout or one.tasks.high[one.row, 0])
    if not prefers or not group.spec.nucleus or "B8" in group.policy.off:
        return {}
    return {"B8": np.where(one.tasks.links.here[nucleus], PREFERRED_BY_SCOUTS if scout else PREFERRED, 1.0)}


def _candidates(standing: Standing, queues: QueueColumns, most: int) -> Candidates:
    return Candidates(
        queues=tuple(queues.names[standing.queues].tolist()),
        weights=tuple(standing.weights.tolist()),
        factors={rule: tuple(values.tolist()) for rule, values in standing.factors.items()},
        ordering=standing.ordering,
        room=tuple(np.maximum(np.floor(standing.room), 0).astype(int).tolist()),
        most=most,
    )
