"""Rules that yield where they would leave a task no queue at all, and the choice says so: B8, B11."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pilotage.brokerage.engine.check import Check
from pilotage.brokerage.engine.job_groups import Group
from pilotage.brokerage.engine.options import VoPolicy
from pilotage.brokerage.engine.queue_columns import Mask, QueueColumns
from pilotage.brokerage.engine.task_columns import TaskColumns
from pilotage.brokerage.engine.verdicts import Examination, Reasons, examine
from pilotage.model.decision import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A group with its ``row`` of an examination, and the refusals that were set aside for it."""

    group: Group
    tasks: TaskColumns
    examination: Examination
    row: int
    waived: tuple[Refusal, ...] = ()

    @property
    def willing(self) -> Mask:
        """Queues that no check refuses, (Q,)."""
        mask: Mask = np.logical_not(self.examination.planes[:, self.row].any(axis=0))
        return mask

    @property
    def refusals(self) -> Sequence[Refusal]:
        """Its refusals, in the order of the checks."""
        return self.examination.refusals[self.row]


@dataclass(frozen=True, slots=True)
class _Waiver:
    rule: str
    reason: str
    applies: Callable[["Examiner", Examined], bool]
    relax: Callable[[VoPolicy], VoPolicy]


class Examiner:
    """Runs all checks on groups of one cycle, and again where a rule yields."""

    def __init__(self, checks: Sequence[Check], queues: QueueColumns, reasons: Reasons) -> None:
        self.queues = queues
        self._checks = checks
        self._reasons = reasons
        self._lasting = _bits(checks, lambda check: check.mend != "wait" and check.rule != "B8")
        self._but_b11 = _bits(checks, lambda check: check.rule != "B11")
        self._relaxed: dict[tuple[int, str], VoPolicy] = {}

    def examine(self, groups: Sequence[Group]) -> list[Examined]:
        """The groups examined, each with the rules that yield to it relaxed."""
        found = self._examine(groups)
        for waiver in _WAIVERS:
            chosen = [place for place, one in enumerate(found) if waiver.applies(self, one)]
            if chosen:
                again = self._examine([self._relaxing(found[place].group, waiver) for place in chosen])
                for place, other in zip(chosen, again, strict=True):
                    found[place] = _with_waived(other, found[place], waiver)
        return found

    def never_at_nucleus(self, one: Examined) -> bool:
        """Tell whether each pledged queue of the nucleus refuses for good, whatever waits (B8)."""
        policy, spec = one.group.policy, one.group.spec
        kept = bool(one.tasks.high[one.row, 0] or one.tasks.scout[one.row, 0]) and "B8" not in policy.off
        if not (spec.nucleus and kept and policy.constants.high_priority == "nucleus"):
            return False
        here = one.tasks.links.here[int(one.tasks.nucleus[one.row, 0])] & ~self.queues.opportunistic
        return bool(self._refused(one, self._lasting)[here].all())

    def moves_too_much(self, one: Examined) -> bool:
        """Tell whether no queue is left, and some would be without B11."""
        if not one.group.together or "B11" in one.group.policy.off or one.willing.any():
            return False
        return bool((~self._refused(one, self._but_b11)).any())

    def _examine(self, groups: Sequence[Group]) -> list[Examined]:
        tasks = TaskColumns.of(groups, self.queues)
        examination = examine(self._checks, tasks, self.queues, self._reasons)
        return [
            Examined(group=group, tasks=tasks, examination=examination, row=row)
            for row, group in enumerate(groups)
        ]

    def _refused(self, one: Examined, bits: Iterable[np.uint8]) -> Mask:
        planes = one.examination.planes[:, one.row]
        mask: Mask = np.any([plane & chosen for plane, chosen in zip(planes, bits, strict=True)], axis=0)
        return mask

    def _relaxing(self, group: Group, waiver: _Waiver) -> Group:
        key = id(group.policy), waiver.rule
        if key not in self._relaxed:
            self._relaxed[key] = waiver.relax(group.policy)
        return replace(group, policy=self._relaxed[key])


def _bits(checks: Sequence[Check], chosen: Callable[[Check], bool]) -> list[np.uint8]:
    """The bits of these checks in each plane of an examination."""
    planes = [0] * (-(-len(checks) // 8))
    for position, check in enumerate(checks):
        if chosen(check):
            planes[position // 8] |= 1 << position % 8
    return [np.uint8(plane) for plane in planes]


def _with_waived(now: Examined, before: Examined, waiver: _Waiver) -> Examined:
    """Now, with what the rule refused before and no longer does."""
    still = {name for refusal in now.refusals if refusal.rule == waiver.rule for name in refusal.queues}
    waived = list(before.waived)
    for refusal in (one for one in before.refusals if one.rule == waiver.rule):
        kept = [place for place, name in enumerate(refusal.queues) if name not in still]
        if kept:
            need = refusal.need
            waived.append(
                replace(
                    refusal,
                    queues=tuple(refusal.queues[place] for place in kept),
                    have=tuple(refusal.have[place] for place in kept),
                    need=tuple(need[place] for place in kept) if isinstance(need, tuple) else need,
                    lifted_by=waiver.reason,
                )
            )
    return replace(now, waived=tuple(waived))


_WAIVERS = (
    _Waiver(
        "B8",
        "no queue of the nucleus could ever take the jobs",
        Examiner.never_at_nucleus,
        lambda policy: VoPolicy(policy.off, replace(policy.constants, high_priority="prefer")),
    ),
    _Waiver(
        "B11",
        "no queue would be left",
        Examiner.moves_too_much,
        lambda policy: VoPolicy(policy.off | {"B11"}, policy.constants),
    ),
)
