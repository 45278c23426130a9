"""Waive B8 or B11 if it would leave no queue, or a worse one. The choice shows the waiver."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pilotage.model.documents.decision import Label
from pilotage.policies.brokerage.engine.arrays import Codes, Mask
from pilotage.policies.brokerage.engine.job_groups import Group
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns
from pilotage.policies.brokerage.engine.verdicts import (
    Bits,
    Examination,
    FactsDraft,
    RefusalValues,
    Ruling,
    bits_of,
    mask_of,
    rulings,
)
from pilotage.policies.brokerage.production.checks.nucleus import PLEDGED
from pilotage.policies.brokerage.production.checks.status import waived_status
from pilotage.policies.brokerage.production.input_moves import is_full, quicker
from pilotage.policies.brokerage.production.placement import Ledgers

NEVER_THERE = "no queue of the nucleus could ever take the jobs"
NONE_LEFT = "no queue would be left"
FULL = "the queues that hold the input are full"
SOONER = "the input can move before the last job would start at its place"


def waive(
    examination: Examination,
    groups: Sequence[Group],
    tasks: TaskColumns,
    queues: QueueColumns,
    facts: FactsDraft,
    ledgers: Ledgers,
) -> Mask:
    """Waive refusals of B8 and B11. Return the tasks (T,) that only prefer their nucleus (B8).

    If a task names a queue that B4 would have refused otherwise, the choice shows that (B2).
    """
    if tasks.named.any():
        examination.waived += rulings((waived_status,), tasks, queues, facts)
    bound = _bound_to_nucleus(tasks)
    preferring = bound & tasks.prefers_nucleus[:, 0]
    yielding = _never_at_nucleus(examination, np.flatnonzero(bound & ~preferring), tasks, queues)
    if len(yielding):
        _prefer(examination, yielding, queues, facts)
        preferring[yielding] = True
    _let_input_move(examination, groups, tasks, queues, facts, ledgers)
    return preferring


def _let_input_move(
    examination: Examination,
    groups: Sequence[Group],
    tasks: TaskColumns,
    queues: QueueColumns,
    facts: FactsDraft,
    ledgers: Ledgers,
) -> None:
    """Waive B11 if no queue would be left, or if waiting for the remaining ones takes longer than moving the
    input."""
    moving = _moving_too_much(examination, groups, len(queues))
    for ruling in _bounding(examination) if len(moving) else []:
        _set_aside(examination, ruling, ruling.bits, moving, NONE_LEFT, facts)
    bounded = _still_bounded(examination, groups)
    if not len(bounded):
        return
    willing = ~mask_of(examination.refused(bounded), len(queues))
    refused = mask_of(examination.refused(bounded, lambda item: item.label.rule == "B11"), len(queues))
    full = [is_full(groups[row], may, ledgers) for row, may in zip(bounded.tolist(), willing, strict=True)]
    sooner = np.zeros_like(refused)
    for place, row in enumerate(bounded.tolist()):
        if not full[place]:
            columns = tasks.part(slice(row, row + 1))
            sooner[place] = quicker(groups[row], columns, willing[place], refused[place], queues, ledgers)
    everywhere = np.broadcast_to(np.array(full)[:, None], refused.shape)
    for reason, mask in ((FULL, everywhere), (SOONER, sooner)):
        chosen = np.flatnonzero(mask.any(axis=1))
        for ruling in _bounding(examination) if len(chosen) else []:
            _set_partly_aside(examination, ruling, bounded[chosen], bits_of(mask[chosen]), reason, facts)


def _bounding(examination: Examination) -> list[Ruling]:
    return [item for item in examination.rulings if item.label.rule == "B11"]


def _still_bounded(examination: Examination, groups: Sequence[Group]) -> Codes:
    """Return tasks with a queue that B11 refuses, if their policy lets input move when that is sooner."""
    candidates = [
        place
        for place, group in enumerate(groups)
        if group.io_intensive and group.together and group.policy.constants.input_moves == "sooner"
    ]
    chosen = np.array(candidates, dtype=np.intp)
    if not _bounding(examination) or not len(chosen):
        return chosen[:0]
    bounded: Codes = chosen[examination.refused(chosen, lambda item: item.label.rule == "B11").any(axis=1)]
    return bounded


def _bound_to_nucleus(tasks: TaskColumns) -> Mask:
    """Return the tasks (T,) that B8 keeps at their nucleus, including tasks that only prefer it."""
    bound = (tasks.high | tasks.scout) & tasks.links.exists[tasks.nucleus[:, 0]]
    mask: Mask = (bound & ~tasks.switched_off("B8"))[:, 0]
    return mask


def _never_at_nucleus(
    examination: Examination, chosen: Codes, tasks: TaskColumns, queues: QueueColumns
) -> Codes:
    """Return the tasks of ``chosen`` that all pledged queues of their nucleus refuse for good (B8).

    A refusal that waiting or an operator can lift, such as a downtime, is not for good.
    """
    lasting = examination.refused(chosen, lambda item: item.label.mend == "user" and item.label.rule != "B8")
    here = bits_of(tasks.links.here & ~queues.opportunistic)[tasks.nucleus[chosen, 0]]
    never: Codes = chosen[~(here & ~lasting).any(axis=1)]
    return never


def _prefer(examination: Examination, tasks: Codes, queues: QueueColumns, facts: FactsDraft) -> None:
    """Refuse only opportunistic queues for these tasks, as if they only preferred the nucleus (B8)."""
    chance = bits_of(queues.opportunistic)
    for ruling in [item for item in examination.rulings if item.label.rule == "B8"]:
        place = examination.rulings.index(ruling)
        _set_aside(examination, ruling, ruling.bits & ~chance, tasks, NEVER_THERE, facts)
        relaxed = replace(
            ruling,
            bits=ruling.bits & chance,
            rows=_only(ruling.rows, tasks),
            need=RefusalValues("one", PLEDGED),
        )
        # Insert it after the original, so that reasons keep the order of the rules.
        examination.rulings.insert(place + 1, relaxed)


def _moving_too_much(examination: Examination, groups: Sequence[Group], queues: int) -> Codes:
    """Return the tasks without a queue that would have one without B11."""
    chosen = np.array(
        [
            place
            for place, group in enumerate(groups)
            if group.io_intensive and group.together and "B11" not in group.policy.off
        ],
        dtype=np.intp,
    )
    full = bits_of(np.ones(queues, dtype=bool))
    without = examination.refused(chosen, lambda item: item.label.rule != "B11")
    none_left = (examination.refused(chosen) == full).all(axis=1)
    moving: Codes = chosen[none_left & (without != full).any(axis=1)]
    return moving


def _set_aside(
    examination: Examination, ruling: Ruling, bits: Bits, tasks: Codes, reason: str, facts: FactsDraft
) -> None:
    """Exclude some tasks from a ruling, and report its ``bits`` as waived."""
    rows = _only(ruling.rows, tasks)
    examination.waived.append(_waived(replace(ruling, bits=bits, rows=rows), reason, facts))
    examination.rulings[examination.rulings.index(ruling)] = replace(ruling, rows=_but(ruling.rows, tasks))


def _set_partly_aside(
    examination: Examination, ruling: Ruling, tasks: Codes, bits: Bits, reason: str, facts: FactsDraft
) -> None:
    """Exclude some tasks from a ruling, each at its queues in ``bits`` (len(tasks), Q / 8)."""
    examination.waived.append(_waived(ruling.only(tasks, bits), reason, facts))
    place = examination.rulings.index(ruling)
    examination.rulings[place] = replace(ruling, rows=_but(ruling.rows, tasks))
    examination.rulings.insert(place + 1, ruling.only(tasks, ~bits))


def _waived(ruling: Ruling, reason: str, facts: FactsDraft) -> Ruling:
    words = ruling.label
    label = Label(rule=words.rule, name=words.name, mend=words.mend, unit=words.unit, lifted_by=reason)
    return replace(ruling, label=label, number=facts.label(label))


def _only(rows: Codes, tasks: Codes) -> Codes:
    chosen = np.full_like(rows, -1)
    chosen[tasks] = rows[tasks]
    return chosen


def _but(rows: Codes, tasks: Codes) -> Codes:
    changed = rows.copy()
    # The last row of a ruling's bits is empty.
    changed[tasks] = -1
    return changed
