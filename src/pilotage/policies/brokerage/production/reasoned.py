"""The reasons of one group's choice: the arrays that decided, packed when the choice is read or stored."""

from collections.abc import Sequence
from dataclasses import dataclass

from pilotage.model.documents.decision import Asked, Label
from pilotage.model.documents.reasons import PackedChoice, PackedRefusal
from pilotage.policies.brokerage.engine.arrays import Mask
from pilotage.policies.brokerage.engine.job_groups import Group
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns
from pilotage.policies.brokerage.engine.verdicts import Examination
from pilotage.policies.brokerage.production.checks import Check
from pilotage.policies.brokerage.production.extensions import CandidateOrder
from pilotage.policies.brokerage.production.placement import Contest, Crowd, Limit, Placed
from pilotage.policies.brokerage.production.ties import Ties


@dataclass(frozen=True, slots=True, eq=False)
class GroupReasons:
    """The reasons that choices of groups share if they were examined together."""

    groups: Sequence[Group]
    tasks: TaskColumns
    examination: Examination
    queues: QueueColumns
    ties: Ties
    order: CandidateOrder | None

    def fields_to_change(self, label: Label, row: int) -> tuple[Asked, ...]:
        """Return the task fields behind a check's need, which these jobs could change."""
        ask = label.asks if isinstance(label, Check) else None
        return ask(self.groups[row]) if ask else ()

    def local(self, row: int) -> Mask | None:
        """Return the queues with all the input at their storage (B31), (Q,); None if there is no input."""
        table, kind = self.tasks.input_table, int(self.tasks.inputs[row, 0])
        if table.files[kind, 0] == 0:
            return None
        mask: Mask = (table.missing_files[kind] == 0)[self.queues.storage]
        return mask


@dataclass(frozen=True, slots=True, eq=False)
class ReasonedGroup:
    """The choice for the group in a row: the state of the queues, the full ones, and the placements."""

    _reasons: GroupReasons
    _row: int
    _standing: Contest
    _crowd: Crowd
    _limit: Limit
    _moved: tuple[int, ...]
    _placed: Sequence[Placed]

    def packed(self) -> PackedChoice:
        """Return the reasons in columns."""
        reasons, row = self._reasons, self._row
        group, names = reasons.groups[row], reasons.queues.names
        # Only tasks without any queue need advice. For others it would make the reasons longer.
        asking = None if len(self._standing.queues) else reasons.fields_to_change
        max_candidates = group.policy.constants.max_candidates
        return PackedChoice(
            task=group.task.id,
            job_kind=group.kind,
            jobs=self._moved,
            placed={names[queue]: jobs for queue, _, jobs in self._placed},
            considered=len(names),
            left=len(group.jobs) - len(self._moved),
            candidates=self._standing.packed(reasons.ties, max_candidates, reasons.order),
            refusals=reasons.examination.refusals(row, asking) + self._crowded(),
            waived=reasons.examination.waivers(row),
        )

    def _crowded(self) -> tuple[PackedRefusal, ...]:
        local = self._reasons.local(self._row)
        limit = self._limit
        refusal = limit.everywhere if local is None else limit.refusal(self._crowd, local)
        return () if refusal is None else (refusal,)
