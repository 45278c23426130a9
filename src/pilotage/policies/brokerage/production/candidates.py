"""Pairs of task and queue that no check refuses, and the factors that stay constant within a cycle."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from pilotage.policies.brokerage.engine.arrays import Codes, Column, Mask
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns

PREFERRED, PREFERRED_BY_SCOUTS = 4.0, 100.0
"""Weight of the nucleus for high-priority work, and for scouts, that only prefer it (B8)."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Columns over pairs (P,): by task, then in the order of the queues' names.

    ``places`` is the queue's code, plus the number of queues if all input is there. ``factors`` are all
    factors except B32, by rule; ``rest`` is their product. ``starts`` has the first pair of each task from
    ``first`` on, and the end. ``without`` marks, by rule, the tasks without this factor.
    """

    first: int
    starts: list[int]
    queues: Codes
    places: Codes
    factors: Mapping[str, Column]
    without: Mapping[str, Mask]
    rest: Column

    def span(self, task: int) -> slice:
        """Return the pairs of a task."""
        return slice(self.starts[task], self.starts[task + 1])

    def factors_of(self, task: int) -> dict[str, Column]:
        """Return the factors of a task's pairs, by rule."""
        span, without = self.span(task), self.without
        return {
            rule: values[span]
            for rule, values in self.factors.items()
            if rule not in without or not without[rule][task]
        }


def pairs_of(
    willing: Mask,
    rows: Codes,
    tasks: TaskColumns,
    queues: QueueColumns,
    preferring: Mask,
    further: Mapping[str, Column],
) -> Pairs:
    """Return the pairs of some tasks (``rows`` of ``tasks``) with the ``willing`` queues (R, Q).

    ``preferring`` (T,) marks tasks that prefer their nucleus. ``further`` are factors (T, Q) by rule.
    """
    # This is much faster than ``np.nonzero``, which returns rows and columns.
    row, queue = np.divmod(np.flatnonzero(willing), len(queues))
    task = rows[row]
    nucleus = tasks.nucleus[task, 0]
    factors = {"B33": _data_weight(task, queue, tasks, queues)}
    without = {"B34": np.broadcast_to(tasks.switched_off("B34"), (len(tasks), 1))[rows, 0]}
    weight = tasks.links.weight[nucleus, queue]
    factors["B34"] = np.where(without["B34"][row], 1.0, weight) if without["B34"].any() else weight
    if preferring[rows].any():
        much = np.where(tasks.scout[task, 0], PREFERRED_BY_SCOUTS, PREFERRED)
        without["B8"] = ~preferring[rows]
        factors["B8"] = np.where(preferring[task] & tasks.links.here[nucleus, queue], much, 1.0)
    factors |= {rule: values[task, queue] for rule, values in further.items()}
    return Pairs(
        first=int(rows[0]),
        # Pairs come by row, so each task's pairs are a slice.
        starts=np.searchsorted(row, np.arange(len(rows) + 1)).tolist(),
        queues=queue,
        places=queue + len(queues) * _local(task, queue, tasks, queues),
        factors=factors,
        without=without,
        rest=reduce(np.multiply, factors.values()),
    )


def _local(task: Codes, queue: Codes, tasks: TaskColumns, queues: QueueColumns) -> Mask:
    """Return the pairs with all the input at the queue's storage (B31)."""
    table = tasks.input_table
    kind = tasks.inputs[task, 0]
    none_missing = table.missing_files[kind, queues.storage[queue]] == 0
    mask: Mask = none_missing | (table.files[kind, 0] == 0)
    return mask


def _data_weight(task: Codes, queue: Codes, tasks: TaskColumns, queues: QueueColumns) -> Column:
    """Return the weight of B33, by all files that the task's jobs brokered together read; 1 if a job reads
    none.

    Files without bytes count by number.
    """
    table, kind = tasks.input_table, tasks.together[task, 0]
    files, size = table.files[kind, 0], table.size[kind, 0]
    missing, missing_size = (
        values[kind, queues.storage[queue]] for values in (table.missing_files, table.missing_size)
    )
    part = np.where(size > 0, missing_size, missing) / np.maximum(np.where(size > 0, size, files), 1)
    weight: Column = (2 - part) / (missing / 100 + 1)
    return np.where(table.files[tasks.inputs[task, 0], 0] == 0, 1.0, weight)
