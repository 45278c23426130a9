"""Cores, memory and work directory: B13, B15, B17."""

import numpy as np

from pilotage.brokerage.production.columns import QueueColumns
from pilotage.brokerage.production.tasks import TaskColumns

from .check import Check, Verdict, check

MEGABYTE = 1e6


@check("B13", "cores", "user", reads=("cores",), unit="cores")
def cores(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Single-core work on queues of 1 core, multi-core work on those that have the cores; 0 is any."""
    single = (tasks.cores == 1) & (queues.cores == 1)
    multi = (tasks.cores > 1) & (queues.cores >= tasks.cores)
    fits = single | multi | (tasks.cores == 0) | (queues.cores == 0)
    return Verdict(~fits, tasks.cores, queues.cores)


@check("B13", "most cores", "user", reads=("max_cores",), unit="cores")
def most_cores(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The task's ``max_cores`` bounds the queue's cores; 0 is no bound."""
    return Verdict((tasks.max_cores > 0) & (queues.cores > tasks.max_cores), tasks.max_cores, queues.cores)


@check("B15", "memory", "user", reads=("memory",), unit="MB")
def memory(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The expected memory, 0.9 of what is asked, is no more than the queue's ``max_memory``."""
    need = tasks.memory * queues.constants.memory_compensation
    return Verdict((queues.max_memory > 0) & (need > queues.max_memory), need, queues.max_memory)


@check("B15", "least memory", "user", reads=("memory",), unit="MB")
def least_memory(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The expected memory is no less than the queue's ``min_memory``."""
    need = tasks.memory * queues.constants.memory_compensation
    return Verdict(need < queues.min_memory, need, queues.min_memory)


@check(
    "B17",
    "work directory",
    "user",
    reads=("fixed_disk", "inputs"),
    unit="MB",
    lifted_by="use less disk in each job",
)
def work_directory(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Input, output and scratch of a job are less than the work directory a core of the queue has.

    The input takes no space where the queue reads directly.
    """
    inputs = tasks.input_table.size[tasks.inputs[:, 0]] / MEGABYTE
    need = (
        tasks.fixed_disk + np.where(queues.direct_access, 0.0, inputs) if inputs.any() else tasks.fixed_disk
    )
    have = queues.max_workdir / np.maximum(queues.cores, 1)
    return Verdict((queues.max_workdir > 0) & (need >= have), need, have)


CHECKS: tuple[Check, ...] = (cores, most_cores, memory, least_memory, work_directory)
