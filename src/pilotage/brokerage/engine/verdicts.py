"""All checks on all queues at once: the refusal matrix, and the reasons from the arrays that decided."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pilotage.model.decision import Refusal, Value

from .check import Check, Label, Verdict
from .queue_columns import Codes, Column, Mask, QueueColumns
from .task_columns import TaskColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """Refusals of (T, Q) as bits: the nth check is bit n % 8 of plane n // 8.

    ``refusals`` has the reasons of each task, in the order of the checks.
    """

    planes: NDArray[np.uint8]
    refusals: Sequence[Sequence[Refusal]]

    @property
    def willing(self) -> Mask:
        """Pairs that no check refuses."""
        mask: Mask = np.logical_not(self.planes.any(axis=0))
        return mask

    @property
    def refused(self) -> NDArray[np.uint64]:
        """The refusal matrix: bit n is set where the nth check refuses."""
        matrix = np.zeros(self.planes.shape[1:], dtype=np.uint64)
        for number, plane in enumerate(self.planes):
            matrix |= plane.astype(np.uint64) << np.uint64(8 * number)
        return matrix


def examine(
    checks: Sequence[Check], tasks: TaskColumns, queues: QueueColumns, reasons: "Reasons"
) -> Examination:
    """Every check on every pair of task and queue, none hiding another.

    A check is evaluated once for each distinct row of the task columns that it reads; tasks that agree
    in these share its mask and its reason.
    """
    planes = np.zeros((-(-len(checks) // 8), len(tasks), len(queues)), dtype=np.uint8)
    refusals: list[list[Refusal]] = [[] for _ in range(len(tasks))]
    for position, check in enumerate(checks):
        distinct, inverse = tasks.distinct(check.reads)
        off = distinct.switched_off(check.rule) if check.optional else _NEVER_OFF
        if off.all():
            continue
        verdict = check.judge(distinct, queues)
        if not verdict.refused.any():
            continue
        refused = verdict.refused & ~off if off.any() else verdict.refused
        mask = np.broadcast_to(refused, (len(distinct), len(queues)))
        found = reasons.of(check, verdict, mask)
        bits = mask.view(np.uint8) << (position % 8)
        planes[position // 8] |= bits if len(bits) == 1 else bits[inverse]
        for row, kind in enumerate(inverse.tolist()):
            if kind in found:
                refusals[row].append(found[kind])
    return Examination(planes=planes, refusals=refusals)


_NEVER_OFF = np.zeros((1, 1), dtype=bool)


class Reasons:
    """Makes refusals of verdicts; like refusals share their queues and what these have."""

    def __init__(self, queues: QueueColumns) -> None:
        self._names = queues.names
        self._shared: dict[tuple[str, str, bytes, bytes], tuple[tuple[str, ...], tuple[Value, ...]]] = {}

    def of(self, label: Label, verdict: Verdict, mask: Mask) -> dict[int, Refusal]:
        """The refusal of each row of the mask (T, Q) that refuses anything."""
        need, have = np.asarray(verdict.need), np.asarray(verdict.have)
        have = have[0] if have.ndim == 2 and len(have) == 1 else have
        if len(mask) == 1:
            columns = mask[0].nonzero()[0]
            return {0: self._of_row(label, columns, need, have)} if len(columns) else {}
        if have.ndim < 2 and (need.ndim == 0 or need.shape[1] == 1):
            needs = np.broadcast_to(need, (len(mask), 1))[:, 0].tolist()
            key = label.rule, label.name, have.tobytes() if have.dtype.kind == "f" else b""
            return {
                row: _refusal(label, *self._by_mask(key, mask[row], have), needs[row])
                for row in np.flatnonzero(mask.any(axis=1)).tolist()
            }
        return self._one_by_one(label, mask, need, have)

    def _of_row(self, label: Label, columns: Codes, need: Column, have: Column) -> Refusal:
        names, has = tuple(self._names[columns].tolist()), tuple(_values(have, columns, columns))
        if need.size > 1:
            return _refusal(label, names, has, tuple(_values(need, columns, columns)))
        return _refusal(label, names, has, need.item())

    def _by_mask(
        self, like: tuple[str, str, bytes], mask: Mask, have: Column
    ) -> tuple[tuple[str, ...], tuple[Value, ...]]:
        key = (*like, mask.tobytes())
        if key not in self._shared:
            columns = mask.nonzero()[0]
            found = _values(have, columns, columns)
            self._shared[key] = (tuple(self._names[columns].tolist()), tuple(found))
        return self._shared[key]

    def _one_by_one(self, label: Label, mask: Mask, need: Column, have: Column) -> dict[int, Refusal]:
        # Much faster than the places by row and column at once.
        places = np.flatnonzero(mask)
        ends = np.searchsorted(places, np.arange(len(mask) + 1) * mask.shape[1]).tolist()
        rows, columns = np.divmod(places, mask.shape[1])
        names = self._names[columns].tolist()
        has = _values(have, rows, columns)
        scalar = need.ndim == 0 or need.shape[1] == 1
        needs = _values(need, rows, columns)
        return {
            row: _refusal(
                label,
                tuple(names[start:end]),
                tuple(has[start:end]),
                needs[start] if scalar else tuple(needs[start:end]),
            )
            for row, (start, end) in enumerate(pairwise(ends))
            if start < end
        }


def _refusal(
    label: Label, queues: tuple[str, ...], have: tuple[Value, ...], need: Value | tuple[Value, ...]
) -> Refusal:
    if isinstance(need, tuple) and need.count(need[0]) == len(need):
        # So that it does not show which other tasks were examined together with this one.
        need = need[0]
    return Refusal(
        rule=label.rule,
        name=label.name,
        mend=label.mend,
        queues=queues,
        have=have,
        need=need,
        unit=label.unit,
        lifted_by=label.lifted_by,
    )


def _values(array: Column, rows: Codes, columns: Codes) -> list[Value]:
    """Plain Python values at these places of an array that broadcasts to (T, Q); unknown (NaN) is None."""
    table = np.atleast_2d(array)
    if table.size == 1:
        picked = np.repeat(table[0], len(columns))
    elif len(table) > 1:
        picked = table[rows, 0 if table.shape[1] == 1 else columns]
    elif len(columns) > len(table[0]):
        # As objects, so that each queue's value is made once and not for each task that it refuses.
        picked = _known(table[0]).astype(object)[columns]
    else:
        picked = table[0, columns]
    plain: list[Value] = _known(picked).tolist()
    return plain


def _known(array: Column) -> Column:
    if array.dtype.kind != "f" or not np.isnan(array).any():
        return array
    known = array.astype(object)
    known[np.isnan(array)] = None
    return known
