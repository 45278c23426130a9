"""Needs of jobs at each queue, where they depend on its cores, power or storage."""

import numpy as np

from .arrays import Column, Mask
from .queue_columns import QueueColumns
from .task_columns import TaskColumns


def memory_at(tasks: TaskColumns, queues: QueueColumns) -> Column:
    """MB that a job asks for with the cores that it has at each queue: (T, 1) or (T, Q)."""
    need: Column = tasks.base_memory + tasks.core_memory * tasks.cores_at(queues)
    return need


def walltime_at(work: Column, tasks: TaskColumns, queues: QueueColumns, unknown_power: float) -> Column:
    """Seconds that this work (HS23 seconds) takes with the cores that a job uses at each queue: (T, Q).

    ``unknown_power`` (HS23 a core) stands for that of queues where nobody declared it.
    """
    power = np.where(np.isnan(queues.core_power), unknown_power, queues.core_power)
    need: Column = work / (power * tasks.cores_at(queues)) + (tasks.base_time + tasks.walltime)
    return need


def without_source(tasks: TaskColumns, queues: QueueColumns) -> Mask | None:
    """Queues to which an input file can be brought from nowhere, (T, Q); None where there are none."""
    unreadable = tasks.input_table.unreadable
    if not unreadable.any():
        return None
    mask: Mask = unreadable[tasks.inputs[:, 0]].take(queues.storage, axis=1)
    return mask
