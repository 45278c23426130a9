"""Run checks on all pairs of task and queue: refused pairs as bits, and reasons from the arrays that
decided."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pilotage.model.documents.decision import Asked, Label, Value
from pilotage.model.documents.reasons import Facts, Given, PackedRefusal, Shared, Values
from pilotage.policies.brokerage.engine.arrays import Codes, Column, Mask
from pilotage.policies.brokerage.engine.check import Check, Rows
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns

Bits = NDArray[np.uint8]
"""Masks over queues: eight queues per byte, the first in the lowest bit."""

AT_ONCE = 1 << 18
"""Pairs of task and queue that a check judges in one call: as many as fit a processor's cache."""

Asking = Callable[[Label, int], tuple[Asked, ...]]
"""Returns the task fields behind a check's need, for the task in a row."""


def bits_of(mask: Mask) -> Bits:
    """Return the last axis of a mask as bits."""
    return np.packbits(mask, axis=-1, bitorder="little")


def mask_of(bits: Bits, queues: int) -> Mask:
    """Return the mask of some bits."""
    return np.unpackbits(bits, axis=-1, count=queues, bitorder="little").view(bool)


class FactsDraft:
    """Labels and columns that refusals of one pass share. Each is stored once."""

    def __init__(self, queues: QueueColumns) -> None:
        self._names = queues.names
        self._labels: dict[Label, int] = {}
        self._columns: dict[object, tuple[Shared, Column]] = {}

    def label(self, label: Label) -> int:
        """Return the number of a label."""
        # A check is a label with more fields, and hashes all of them. Only the words matter here.
        words = Label(
            rule=label.rule,
            name=label.name,
            mend=label.mend,
            unit=label.unit,
            lifted_by=label.lifted_by,
        )
        return self._labels.setdefault(words, len(self._labels))

    def column(self, values: Column) -> Shared:
        """Return the index of a column with a value per queue."""
        # Compare object columns by identity: a column of texts is made once for all tasks.
        key: object = id(values) if values.dtype == object else (values.dtype.str, values.tobytes())
        if key not in self._columns:
            self._columns[key] = Shared(len(self._columns)), values
        return self._columns[key][0]

    def facts(self) -> Facts:
        """Return all labels and columns."""
        columns = (plain(values) for _, values in self._columns.values())
        return Facts(queues=tuple(self._names.tolist()), labels=tuple(self._labels), columns=tuple(columns))


def plain(values: Column) -> Values:
    """Return plain Python values of an array (N,). Floats stay an array, where NaN means None."""
    if values.dtype.kind == "f":
        return array("d", np.ascontiguousarray(values, dtype=float).tobytes())
    return tuple(values.tolist())


@dataclass(frozen=True, slots=True)
class RefusalValues:
    """The values of need or have in the refusals of a ruling: by row, by queue, by pair, or one for all."""

    kind: Literal["one", "row", "queue", "pair", "table"]
    values: Any
    starts: Codes | None = None

    @classmethod
    def of(cls, parts: Sequence[Any], masks: Sequence[Mask], facts: FactsDraft) -> "RefusalValues":
        """Join the values of parts. Each broadcasts to its mask (D, Q) of refused pairs."""
        tables = [part for part in parts if isinstance(part, Rows)]
        if tables and len(tables) == len(parts):
            shared = [_shared(table, mask, facts) for table, mask in zip(tables, masks, strict=True)]
            return cls("table", list(chain.from_iterable(shared)))
        return cls._of_arrays(
            [np.asarray(part.values if isinstance(part, Rows) else part) for part in parts], masks, facts
        )

    @classmethod
    def _of_arrays(cls, parts: Sequence[Column], masks: Sequence[Mask], facts: FactsDraft) -> "RefusalValues":
        # A check may return NEVER for a part of the tasks. A part without refusals needs no values.
        telling = [part for part, mask in _pairs(parts, masks) if mask.any()]
        kinds = {_kind(part) for part in telling}
        if kinds == {"one"}:
            return cls("one", _listed(telling[0].reshape(1))[0])
        if kinds == {"queue"}:
            return cls("queue", facts.column(telling[0].reshape(-1)))
        if kinds <= {"one", "row"}:
            filler = telling[0].reshape(-1)[:1]
            rows = [
                np.broadcast_to(part.reshape(-1) if mask.any() else filler, len(mask))
                for part, mask in _pairs(parts, masks)
            ]
            return cls("row", _listed(np.concatenate(rows)))
        chosen = [np.broadcast_to(part, mask.shape)[mask] for part, mask in _pairs(parts, masks)]
        counts = [mask.sum(axis=1) for mask in masks]
        return cls("pair", np.concatenate(chosen), np.concatenate([[0], np.cumsum(np.concatenate(counts))]))

    def of_rows(self, rows: Codes, bits: Bits, kept_bits: Bits) -> "RefusalValues":
        """Return the values for these rows. Keep only ``kept_bits`` of their refused ``bits``."""
        if self.kind in ("one", "queue"):
            return self
        if self.starts is None:
            return RefusalValues("table", [self.values[row] for row in rows.tolist()])
        size = 8 * bits.shape[1]
        parts = [
            self.values[self.starts[row] : self.starts[row + 1]][
                mask_of(row_bits, size)[mask_of(bits[row], size)]
            ]
            for row, row_bits in zip(rows.tolist(), kept_bits, strict=True)
        ]
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        return RefusalValues("pair", np.concatenate(parts), starts)

    def at(self, row: int) -> Given:
        """Return the value in the refusal of a row."""
        if self.starts is not None:
            return plain(self.values[self.starts[row] : self.starts[row + 1]])
        value: Given = self.values[row] if self.kind in ("row", "table") else self.values
        return value


def _kind(part: Column) -> Literal["one", "row", "queue", "pair"]:
    if part.size == 1:
        return "one"
    if part.ndim == 1 or len(part) == 1:
        return "queue"
    return "row" if part.shape[1] == 1 else "pair"


def _pairs(parts: Sequence[Column], masks: Sequence[Mask]) -> Iterator[tuple[Column, Mask]]:
    return zip(parts, masks, strict=True)


def _shared(have: Rows, mask: Mask, facts: FactsDraft) -> list[Shared | None]:
    """Return the column for each row. Many rows may share one."""
    has_refusal = np.broadcast_to(np.any(mask, axis=1), len(have.of))
    used = {row: facts.column(have.table[row]) for row in set(have.of[has_refusal].tolist())}
    return [used.get(row) for row in have.of.tolist()]


def _listed(values: Column) -> list[Value]:
    items: list[Value] = values.tolist()
    if values.dtype.kind != "f" or not np.isnan(values).any():
        return items
    return [None if unknown else value for value, unknown in zip(items, np.isnan(values), strict=True)]


@dataclass(frozen=True, eq=False)
class Ruling:
    """The result of one check. ``bits`` is (D + 1, Q / 8) for each distinct row that it reads; the last row
    is empty.

    ``rows`` (T,) maps each task to its row. -1, the last row, is for tasks without this check. ``number`` is
    the index of its label among the facts.
    """

    label: Label
    number: int
    bits: Bits
    rows: Codes
    need: RefusalValues
    have: RefusalValues
    _refusals: dict[int, PackedRefusal] = field(default_factory=dict, init=False)

    def only(self, tasks: Codes, bits: Bits) -> "Ruling":
        """Return the ruling for some tasks only, and with only these bits of its refusals."""
        old = self.rows[tasks]
        rows = np.full_like(self.rows, -1)
        rows[tasks] = np.arange(len(tasks))
        kept_bits = self.bits[old] & bits
        return replace(
            self,
            bits=np.vstack([kept_bits, np.zeros_like(self.bits[:1])]),
            rows=rows,
            need=self.need.of_rows(old, self.bits, kept_bits),
            have=self.have.of_rows(old, self.bits, kept_bits),
        )

    @property
    def refusing(self) -> Mask:
        """Return the tasks with a refused queue (T,)."""
        refusing: Mask = np.any(self.bits, axis=1)
        return refusing[self.rows]

    def refusal(self, task: int, requests: tuple[Asked, ...] = ()) -> PackedRefusal:
        """Return the refusal of one task."""
        row = int(self.rows[task])
        packed = self._refusals.get(row)
        if packed is None:
            packed = self._refusals[row] = PackedRefusal(
                label=self.number,
                queues=self.bits[row].tobytes(),
                need=self.need.at(row),
                have=self.have.at(row),
            )
        return replace(packed, asked=requests) if requests else packed


class Examination:
    """The rulings on some tasks, in the order of the checks, and the ``waived`` ones."""

    def __init__(self, tasks: int, queues: int, rulings: list[Ruling], waived: list[Ruling]) -> None:
        self._tasks = tasks
        self._queues = queues
        self.rulings = rulings
        self.waived = waived

    def refused(self, tasks: Codes, chosen: Callable[[Ruling], bool] = lambda _: True) -> Bits:
        """Return the queues that a chosen ruling refuses for these tasks: (len(tasks), Q / 8)."""
        planes = np.zeros((len(tasks), -(-self._queues // 8)), dtype=np.uint8)
        for ruling in self.rulings:
            if chosen(ruling):
                planes |= ruling.bits[ruling.rows[tasks]]
        return planes

    def refusals(self, task: int, asking: Asking | None = None) -> tuple[PackedRefusal, ...]:
        """Return the refusals of one task."""
        return tuple(
            ruling.refusal(task, asking(ruling.label, task) if asking else ())
            for ruling in map(self.rulings.__getitem__, _set(self._refusing[task]))
        )

    def waivers(self, task: int) -> tuple[PackedRefusal, ...]:
        """Return the waived refusals of one task."""
        return tuple(self.waived[place].refusal(task) for place in _set(self._waiving[task]))

    @cached_property
    def _refusing(self) -> Mask:
        return self._by_task(self.rulings)

    @cached_property
    def _waiving(self) -> Mask:
        return self._by_task(self.waived)

    def _by_task(self, rulings: Sequence[Ruling]) -> Mask:
        refusing = [ruling.refusing for ruling in rulings]
        mask: Mask = np.array(refusing, dtype=bool).reshape(-1, self._tasks).T
        return mask


def _set(mask: Mask) -> list[int]:
    places: list[int] = mask.nonzero()[0].tolist()
    return places


def examine(
    checks: Sequence[Check], tasks: TaskColumns, queues: QueueColumns, facts: FactsDraft
) -> Examination:
    """Run every check on every pair of task and queue, so that no check hides another."""
    return Examination(len(tasks), len(queues), list(rulings(checks, tasks, queues, facts)), [])


def rulings(
    checks: Sequence[Check], tasks: TaskColumns, queues: QueueColumns, facts: FactsDraft
) -> Iterator[Ruling]:
    """Yield the rulings of all checks with a refusal.

    A check runs once per distinct row of the task columns that it reads. Tasks that agree in these share its
    bits and its reason.
    """
    for check in checks:
        distinct, rows = tasks.distinct(check.reads)
        off = distinct.switched_off(check.rule) if check.optional else _NEVER_OFF
        if not off.all():
            ruling = _ruling(check, distinct, rows, queues, facts, off)
            if ruling is not None:
                yield ruling


_NEVER_OFF = np.zeros((1, 1), dtype=bool)


def _ruling(
    check: Check, distinct: TaskColumns, rows: Codes, queues: QueueColumns, facts: FactsDraft, off: Mask
) -> Ruling | None:
    masks, needs, haves = [], [], []
    label = check
    step = max(2, AT_ONCE // len(queues))
    for start in range(0, len(distinct), step):
        part = distinct if step >= len(distinct) else distinct.part(slice(start, start + step))
        verdict = check.judge(part, queues)
        refused = verdict.refused
        if verdict.lifted_by:
            label = replace(check, lifted_by=verdict.lifted_by)
        if off.any():
            refused = refused & ~(off if len(off) == 1 else off[start : start + step])
        # A verdict may have one row for all tasks. If tasks are judged in parts, expand it.
        rows_told = len(part) if len(distinct) > len(part) else len(refused)
        masks.append(np.broadcast_to(refused, (rows_told, len(queues))))
        needs.append(verdict.need)
        haves.append(verdict.have)
    # Add an empty row, at -1, for tasks that a waiver excepts.
    bits = np.zeros((sum(map(len, masks)) + 1, -(-len(queues) // 8)), dtype=np.uint8)
    np.concatenate([bits_of(mask) for mask in masks], out=bits[:-1])
    if not bits.any():
        return None
    return Ruling(
        label=label,
        number=facts.label(label),
        bits=bits,
        rows=rows if len(bits) == len(distinct) + 1 else np.zeros_like(rows),
        need=RefusalValues.of(needs, masks, facts),
        have=RefusalValues.of(haves, masks, facts),
    )
