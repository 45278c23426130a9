"""The production brokerage: choose queues for groups of similar jobs, with reasons (B1 to B38)."""

from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from typing import Any

import numpy as np

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.moves import FULL, PATIENCE
from pilotage.model.documents.world import World
from pilotage.model.records.borrowing import binding_of
from pilotage.model.records.counters import JOBS_BY_QUEUE, Claim
from pilotage.model.records.spec import PLACE_FIELDS, PRODUCTION_FIELDS, Binding
from pilotage.model.records.states import QUEUED_JOBS, JobState
from pilotage.model.rules.work_budget import PAIRS, WorkBudget
from pilotage.policies.brokerage.engine.decision_draft import DecisionDraft
from pilotage.policies.brokerage.engine.guards import guarded
from pilotage.policies.brokerage.engine.job_groups import Group, groups_of
from pilotage.policies.brokerage.engine.plugin_options import Options
from pilotage.policies.brokerage.engine.queue_columns import DeclaredColumns, QueueColumns
from pilotage.policies.brokerage.engine.spec_table import SpecTable
from pilotage.policies.brokerage.engine.task_columns import TaskColumns
from pilotage.policies.brokerage.engine.verdicts import AT_ONCE, FactsDraft, examine, mask_of
from pilotage.policies.brokerage.production.candidates import Pairs, pairs_of
from pilotage.policies.brokerage.production.checks import CHECKS, Check
from pilotage.policies.brokerage.production.extensions import CandidateOrder, Extensions, Factor
from pilotage.policies.brokerage.production.placement import Contest, Ledgers, Placed, place
from pilotage.policies.brokerage.production.reasoned import GroupReasons, ReasonedGroup
from pilotage.policies.brokerage.production.ties import Ties
from pilotage.policies.brokerage.production.waivers import waive

BLOCK = 1 << 22
"""Pairs of task and queue examined together. This bounds the memory of a pass."""

OPTIONAL_RULES = (frozenset(check.rule for check in CHECKS) - {"B2"}) | {"B34"}
"""Rules that can be switched off: all but the task's choice of queues (B2) and the limit on waiting jobs
(B36)."""

# Jobs with their input at the queue do not compete with jobs that still wait for input (B31).
_NEAR_STATES = tuple(state for state in QUEUED_JOBS if state is not JobState.ASSIGNED)


class Production:
    """Takes groups of similar jobs by global share, priority and age, and spreads each over its best queues.

    Jobs with their input at the queue become ACTIVATED, others ASSIGNED. Each move claims its room within
    B36. Jobs become PENDING (B37) if every queue is refused, also by B36. That includes the rest of a group
    after all queues are full. Jobs stay DEFINED for the next pass if queues beyond the best ones have room,
    or if they are newer than ``PATIENCE``. The choice has their number as ``left``.

    Its options are ``off`` and ``by_vo``. ``off`` lists the rules switched off. ``by_vo`` gives a VO further
    rules that are off, and ``constants`` that replace the federation's. Organisations can add ``checks`` and
    ``factors``, sort the candidates in another ``order``, and choose a ``binding`` for their jobs (E1).
    """

    reads = PLACE_FIELDS | PRODUCTION_FIELDS
    """The task fields for brokerages that it reads."""

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        *,
        checks: Sequence[Check] = (),
        factors: Sequence[Factor] = (),
        order: CandidateOrder | None = None,
        binding: Binding | None = None,
    ) -> None:
        self._extensions = Extensions(tuple(checks), tuple(factors), order, binding)
        rules = OPTIONAL_RULES | {check.rule for check in checks}
        self._options = Options.of(options or {}, rules)
        self._columns = DeclaredColumns()
        self._specs = SpecTable()

    @property
    def binding(self) -> Binding | None:
        """Return the binding that it sets for its jobs, if any (E1)."""
        return self._extensions.binding

    @guarded
    def decide(self, world: World) -> Decision:
        """Return moves of the world's DEFINED jobs, with a choice per group of similar jobs."""
        queues = self._columns.of(world.federation).during(world)
        groups = groups_of(world, queues, self._options, self._specs)
        cycle = _ProductionCycle(world, queues, self._extensions, len(groups), self._specs)
        work = WorkBudget()
        for group in groups:
            work.spend(group.task.id, PAIRS, len(queues))
        rows = max(1, BLOCK // len(queues))
        for start in range(0, len(groups), rows):
            cycle.decide(groups[start : start + rows])
        return cycle.decision()


class _ProductionCycle:
    """One pass over the groups: the moves and choices so far, and the room that they took."""

    def __init__(
        self, world: World, queues: QueueColumns, extensions: Extensions, groups: int, specs: SpecTable
    ) -> None:
        self._specs = specs
        self._time, self._jobs = world.time, world.jobs
        self._constants = world.federation.binding
        self._queues = queues
        self._extensions = extensions
        self._checks = (*CHECKS, *extensions.checks)
        self._facts = FactsDraft(queues)
        self._ledgers = Ledgers(queues, self._facts)
        self._ties = Ties(world.seed, len(queues), groups)
        self._claims: dict[tuple[str, int, bool, int], tuple[Claim, ...]] = {}
        self._draft = DecisionDraft(world, queues)

    def decision(self) -> Decision:
        """Return the moves and choices of the groups so far."""
        return self._draft.decision(self._facts.facts)

    def decide(self, groups: Sequence[Group]) -> None:
        """Examine the groups together, then place them in order, because each changes the counts."""
        tasks = TaskColumns.of(groups, self._queues, self._specs)
        examination = examine(self._checks, tasks, self._queues, self._facts)
        preferring = waive(examination, groups, tasks, self._queues, self._facts, self._ledgers)
        further = self._extensions.weigh(tasks, self._queues)
        reasons = GroupReasons(groups, tasks, examination, self._queues, self._ties, self._extensions.order)
        step = max(1, AT_ONCE // len(self._queues))
        for start in range(0, len(groups), step):
            rows = np.arange(start, min(start + step, len(groups)))
            willing = ~mask_of(examination.refused(rows), len(self._queues))
            pairs = pairs_of(willing, rows, tasks, self._queues, preferring, further)
            for row in rows.tolist():
                self._decide(groups[row], row, pairs, reasons)

    def _decide(self, group: Group, row: int, pairs: Pairs, reasons: GroupReasons) -> None:
        """Move the jobs of one group, and add the choice that explains it."""
        ledger = self._ledgers.of(group.share)
        limit = ledger.limit(group)
        # Take the state before the group's jobs: the reason names the queues that were full at its turn.
        crowd, drawn = limit.crowd, self._ties.draw()
        standing = Contest(pairs, row - pairs.first, ledger, limit, drawn)
        placed: Sequence[Placed] = ()
        if not len(standing.queues):
            moved = self._suspend(group, "no queue fits")
        else:
            if self._extensions.order is not None:
                standing.set_keys(group, self._queues, self._extensions.order)
            placed = place(group, standing, ledger, self._ties)
            moved = self._place(group, placed, standing)
            rest = group._replace(jobs=group.jobs[len(moved) :])
            if not standing.has_room(limit) and (waiting := self._waiting(rest)).jobs:
                moved += self._suspend(waiting, FULL)
            if not moved:
                return
        self._draft.explain(ReasonedGroup(reasons, row, standing, crowd, limit, moved, placed))

    def _place(self, group: Group, placed: Sequence[Placed], standing: Contest) -> tuple[int, ...]:
        """Send the oldest jobs to the best queue, and so on. Return the placed jobs."""
        moved, limit = 0, self._ledgers.of(group.share).limit(group)
        binding, takers = self._binding(group, placed, standing)
        for queue, local, jobs in placed:
            ids = group.jobs[moved : moved + jobs]
            claims = self._claim(group.share, queue, local, int(limit.jobs[queue]))
            self._draft.place(
                ids,
                queue,
                local=local,
                cause="brokered",
                claims=claims,
                binding=binding,
                takers=takers,
            )
            moved += jobs
        return group.jobs[:moved]

    def _binding(
        self, group: Group, placed: Sequence[Placed], standing: Contest
    ) -> tuple[Binding, tuple[str, ...] | None]:
        """Return the binding of a group's jobs, and the candidates with pilots that may take them; None means
        all (E1).

        Bind jobs early if no other queue's pilots could take them, so that no pilots are requested elsewhere.
        """
        spec, owner = group.task.spec, group.task.owner
        binding = binding_of(spec, owner, self._constants, self._extensions.binding)
        if binding == "early" or not placed:
            return "early", None
        candidates = takers = standing.queues[standing.uncrowded]
        if group.inputs:
            takers = takers[self._queues.reading(holders for holders, _, _ in group.inputs)[takers]]
        alone = len(takers) == 1 and all(queue == takers[0] for queue, *_ in placed)
        if binding == "elastic" and (alone or not len(takers)):
            return "early", None
        if len(takers) == len(candidates):
            return binding, None
        return binding, tuple(self._queues.names[takers].tolist())

    def _claim(self, share: str, queue: int, local: bool, limit: int) -> tuple[Claim, ...]:
        """Return the claim of jobs placed at a queue: room for waiting jobs of the share (B36)."""
        key = (share, queue, local, limit)
        if key not in self._claims:
            first, *names = (
                str(self._queues.names[number]) for number in self._queues.together.queues(queue)
            )
            claim = Claim(
                counter=JOBS_BY_QUEUE,
                key=(first, share),
                others=tuple((name, share) for name in names),
                states=_NEAR_STATES if local else QUEUED_JOBS,
                limit=limit,
            )
            self._claims[key] = (claim,)
        return self._claims[key]

    def _waiting(self, group: Group) -> Group:
        """Return the group without the jobs that a pilot may take before people ask why they wait."""
        return group._replace(jobs=tuple(job for job in group.jobs if job not in self._new))

    @cached_property
    def _new(self) -> Set[int]:
        """Jobs that have been DEFINED for less than ``PATIENCE``."""
        latest = self._time - PATIENCE
        return {job.id for job in self._jobs if job.state is JobState.DEFINED and job.since > latest}

    def _suspend(self, group: Group, cause: str) -> tuple[int, ...]:
        until = self._time + group.policy.constants.pending_time
        return self._draft.suspend(group, cause, until)
