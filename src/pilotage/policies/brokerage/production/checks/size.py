"""Cores, GPUs, memory and work directory: B13 to B15, B17."""

import numpy as np

from pilotage.policies.brokerage.engine.arrays import Column, Mask
from pilotage.policies.brokerage.engine.check import MEGABYTE, NEVER, Check, Rows, Verdict, check
from pilotage.policies.brokerage.engine.needs import memory_at
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns
from pilotage.policies.brokerage.production.checks import asking

_MEMORY = ("base_memory", "core_memory", "cores")
_LESS_DISK = "use less disk in each job"
_LESS = "use less memory in each job"
_MORE = "give each job work that uses more memory"


@check("B13", "cores", "user", reads=("cores",), unit="cores", asks=asking.cores)
def cores(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Single-core work goes to queues of 1 core, multi-core work to queues with enough cores; 0 means any."""
    single = (tasks.cores == 1) & (queues.cores == 1)
    multi = (tasks.cores > 1) & (queues.cores >= tasks.cores)
    fits = single | multi | (tasks.cores == 0) | (queues.cores == 0)
    return Verdict(~fits, tasks.cores, queues.cores)


@check("B13", "most cores", "user", reads=("max_cores",), unit="cores", asks=asking.most_cores)
def most_cores(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The task's ``max_cores`` limits the queue's cores; 0 means no limit."""
    return Verdict((tasks.max_cores > 0) & (queues.cores > tasks.max_cores), tasks.max_cores, queues.cores)


@check(
    "B14",
    "GPUs",
    "user",
    reads=("gpus",),
    unit="GPUs",
    lifted_by="leave out gpus, and what follows & in architecture",
    asks=asking.gpus,
)
def gpus(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The queue's slots have the requested GPUs: one if only the architecture names a GPU."""
    return Verdict(tasks.gpus > queues.gpus, tasks.gpus, queues.gpus) if tasks.gpus.any() else NEVER


@check("B15", "memory", "user", reads=_MEMORY, unit="MB", lifted_by=_LESS, asks=asking.memory)
def memory(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The expected memory, 0.9 of the request, is at most the queue's ``max_memory`` per slot."""
    need = _memory(tasks, queues)
    return Verdict((queues.max_memory > 0) & (need > queues.max_memory), need, queues.max_memory)


@check("B15", "least memory", "user", reads=_MEMORY, unit="MB", lifted_by=_MORE, asks=asking.memory)
def least_memory(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The expected memory, if the task requests any, is at least the queue's ``min_memory``."""
    if not queues.min_memory.any():
        return NEVER
    need = _memory(tasks, queues)
    return Verdict((need > 0) & (need < queues.min_memory), need, queues.min_memory)


@check(
    "B17",
    "work directory",
    "user",
    reads=("fixed_disk", "inputs", "copies", "cores"),
    unit="MB",
    lifted_by=_LESS_DISK,
    asks=asking.work_directory,
)
def work_directory(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Output and scratch of a job take less than its cores' part of the work directory.

    This check is for jobs that copy no input: they have none, or read it directly at the queue.
    """
    applies = (_input(tasks) == 0) | _reads_directly(tasks, queues)
    return _within_its_part(tasks.fixed_disk, applies, tasks, queues)


@check(
    "B17",
    "work directory for input",
    "user",
    reads=("fixed_disk", "inputs", "copies", "cores"),
    unit="MB",
    lifted_by=_LESS_DISK,
    asks=asking.work_directory,
)
def work_directory_for_input(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Copied input takes space too, besides output and scratch."""
    size = _input(tasks)
    return _within_its_part(
        tasks.fixed_disk + size, (size > 0) & ~_reads_directly(tasks, queues), tasks, queues
    )


def _input(tasks: TaskColumns) -> Column:
    megabytes: Column = tasks.input_table.size[tasks.inputs[:, 0]] / MEGABYTE
    return megabytes


def _reads_directly(tasks: TaskColumns, queues: QueueColumns) -> Mask:
    mask: Mask = queues.direct_access & ~tasks.copies
    return mask


def _memory(tasks: TaskColumns, queues: QueueColumns) -> Column:
    """Return the MB that a job is expected to use with its cores at each queue."""
    need: Column = memory_at(tasks, queues) * tasks.constant("memory_compensation")
    return need


def _within_its_part(need: Column, applies: Mask, tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Compare a need with the job's part of the work directory. Slots of a pseudo-queue share the directory
    of their unified queue; each core has an equal part."""
    # One row per distinct number of cores, not per task: reasons keep these rows.
    cores, kinds = np.unique(tasks.cores[:, 0], return_inverse=True)
    used = np.where(cores[:, None] > 0, cores[:, None], np.maximum(queues.cores, 1))
    parts = queues.max_workdir * np.minimum(used / queues.slot_cores, 1)
    limits = np.where(queues.max_workdir > 0, parts, np.inf)
    refused = applies & (need >= limits[kinds])
    return Verdict(refused, need, Rows(parts, kinds)) if refused.any() else NEVER


CHECKS: tuple[Check, ...] = (
    cores,
    most_cores,
    gpus,
    memory,
    least_memory,
    work_directory,
    work_directory_for_input,
)
