"""Checks on the single queues of a site: they count as part of the site's requirements (M4, F1, F2).

A site's ad has the largest value of all its queues. These checks find the queues that can run the job.
"""

import numpy as np

from pilotage.policies.brokerage.engine import local_checks
from pilotage.policies.brokerage.engine.check import NEVER, OPENED, Check, Verdict, check
from pilotage.policies.brokerage.engine.local_checks import offered
from pilotage.policies.brokerage.engine.needs import memory_at, walltime_at, without_source
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns

_MEMORY = ("base_memory", "core_memory", "cores")
_WALLTIME = ("cpu_work", "base_time", "walltime", "cores")


@check("M4", "queue's status", "operator", lifted_by=OPENED)
def _status(_: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues that are online or standby, but not unified queues: their pseudo-queues take the jobs."""
    return Verdict((~queues.online | queues.unified)[None, :], "online", queues.status)


@check("M4", "queue's name", "user", reads=("preassignment",), lifted_by="name other queues in the task")
def _named(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues that the task names, if it names any."""
    named = tasks.preassigned[tasks.preassignment[:, 0]]
    return Verdict((tasks.preassignment > 0) & ~named, "a queue that the task names", queues.names)


@check("M4", "queue's cores", "user", reads=("cores",), unit="cores", lifted_by="ask for fewer cores")
def _cores(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues with at least the requested cores; 0 means any."""
    return Verdict((queues.cores > 0) & (tasks.cores > queues.cores), tasks.cores, queues.cores)


@check("M4", "queue's GPUs", "user", reads=("gpus",), unit="GPUs", lifted_by="ask for fewer GPUs")
def _gpus(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues with at least the requested GPUs."""
    return Verdict(tasks.gpus > queues.gpus, tasks.gpus, queues.gpus)


@check("M4", "queue's memory", "user", reads=_MEMORY, unit="MB", lifted_by="ask for less memory")
def _memory(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues with a ``max_memory`` of at least the job's memory; 0 means no limit."""
    need = memory_at(tasks, queues)
    return Verdict((queues.max_memory > 0) & (need > queues.max_memory), need, queues.max_memory)


@check("M4", "queue's walltime", "user", reads=_WALLTIME, unit="s", lifted_by="give each job less to do")
def _walltime(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues with a ``max_walltime`` of at least the job's walltime there; 0 means no limit.

    Accept queues without a declared power.
    """
    need = walltime_at(tasks.cpu_work, tasks, queues, np.inf)
    return Verdict((queues.max_walltime > 0) & (need > queues.max_walltime), need, queues.max_walltime)


@check("M4", "queue's software", "user", reads=("release",), lifted_by="ask for a release that is offered")
def _software(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues with the release, if they publish their releases."""
    return offered("releases", tasks.tables.releases, tasks.release, queues)


@check("M4", "queue's containers", "user", reads=("container",), lifted_by="ask for an image that is offered")
def _containers(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues with the container, if they publish their containers."""
    return offered("containers", tasks.tables.containers, tasks.container, queues)


@check("M4", "queue's hardware", "user", reads=("machine",), lifted_by="ask for hardware that is offered")
def _hardware(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues with the processor and the GPU that an architecture names, if they publish their
    hardware."""
    return offered("hardware", tasks.tables.machines, tasks.machine, queues)


@check("M4", "queue's input", "wait", reads=("inputs",), lifted_by="a storage with the input is opened")
def _inputs(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues where every input file is at the storage or can be delivered there."""
    refused = without_source(tasks, queues)
    return NEVER if refused is None else Verdict(refused, "a readable copy", "none")


CHECKS: tuple[Check, ...] = (
    _status,
    _named,
    _cores,
    _gpus,
    _memory,
    _walltime,
    _software,
    _containers,
    _hardware,
    _inputs,
    *local_checks.CHECKS,
)
