"""Needs of jobs that depend on a queue's cores, power or storage."""

import numpy as np

from pilotage.policies.brokerage.engine.arrays import Column, Mask
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns


def memory_at(tasks: TaskColumns, queues: QueueColumns) -> Column:
    """Return the MB that a job requests with its cores at each queue: (T, 1) or (T, Q)."""
    need: Column = tasks.base_memory + tasks.core_memory * tasks.cores_at(queues)
    return need


def walltime_at(work: Column, tasks: TaskColumns, queues: QueueColumns, unknown_power: float) -> Column:
    """Return the seconds that this work (HS23 s) takes with a job's cores at each queue: (T, Q).

    ``unknown_power`` (HS23 per core) is assumed for queues that declare no power.
    """
    power = np.where(np.isnan(queues.core_power), unknown_power, queues.core_power)
    need: Column = work / (power * tasks.cores_at(queues)) + (tasks.base_time + tasks.walltime)
    return need


def without_source(tasks: TaskColumns, queues: QueueColumns) -> Mask | None:
    """Return the queues where an input file cannot be brought from any storage, (T, Q); None if there are
    none."""
    unreadable = tasks.input_table.unreadable
    if not unreadable.any():
        return None
    mask: Mask = unreadable[tasks.inputs[:, 0]].take(queues.storage, axis=1)
    return mask
