"""All checks on all queues at once: the refusal matrix, and the reasons from the arrays that decided."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pilotage.model.decision import Refusal, Value

from .checks.check import Check, Label, Verdict
from .columns import Codes, Column, Mask, QueueColumns
from .tasks import TaskColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """``refused`` is a uint64 matrix (T, Q), bit n the nth check; ``refusals`` the reasons by task."""

    refused: Column
    refusals: Sequence[Sequence[Refusal]]


def examine(checks: Sequence[Check], tasks: TaskColumns, queues: QueueColumns) -> Examination:
    """Every check on every pair of task and queue, none hiding another.

    A check is evaluated once for each distinct row of the task columns that it reads; tasks that agree
    in these share its mask and its reason.
    """
    refused = np.zeros((len(tasks), len(queues)), dtype=np.uint64)
    refusals: list[list[Refusal]] = [[] for _ in range(len(refused))]
    for position, check in enumerate(checks):
        distinct, inverse = tasks.distinct(check.reads)
        verdict = check.judge(distinct, queues)
        mask = np.broadcast_to(verdict.refused, (len(distinct), len(queues)))
        reasons = reasons_of(check, verdict, mask, queues)
        if not reasons:
            continue
        bits = mask * np.uint64(1 << position)
        refused |= bits if len(bits) == 1 else bits[inverse]
        for row, kind in enumerate(inverse.tolist()):
            if kind in reasons:
                refusals[row].append(reasons[kind])
    return Examination(refused=refused, refusals=refusals)


def reasons_of(label: Label, verdict: Verdict, mask: Mask, queues: QueueColumns) -> dict[int, Refusal]:
    """The refusal of each row of the mask that refuses anything."""
    rows, columns = np.nonzero(mask)
    if not len(rows):
        return {}
    ends = np.searchsorted(rows, np.arange(len(mask) + 1)).tolist()
    names = queues.names[columns].tolist()
    have = _values(verdict.have, rows, columns, mask.shape)
    need, scalar = np.asarray(verdict.need), np.ndim(verdict.need) == 0 or np.shape(verdict.need)[1] == 1
    needs = _values(need, np.arange(len(mask)) if scalar else rows, 0 if scalar else columns, mask.shape)
    reasons = {}
    for row, (start, end) in enumerate(pairwise(ends)):
        if start < end:
            reasons[row] = Refusal(
                rule=label.rule,
                name=label.name,
                mend=label.mend,
                queues=tuple(names[start:end]),
                have=tuple(have[start:end]),
                need=needs[row] if scalar else tuple(needs[start:end]),
                unit=label.unit,
                lifted_by=label.lifted_by,
            )
    return reasons


def _values(values: Any, rows: Codes, columns: Codes | int, shape: tuple[int, ...]) -> list[Value]:
    """Plain Python values at these places of an array that broadcasts to the shape; unknown (NaN) is None."""
    array = np.asarray(values)
    picked = np.broadcast_to(array, shape)[rows, columns]
    if picked.dtype.kind == "f" and np.isnan(picked).any():
        picked = np.where(np.isnan(picked), None, picked.astype(object))
    plain: list[Value] = picked.tolist()
    return plain
