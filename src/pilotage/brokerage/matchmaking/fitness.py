"""Queues of a site that cannot run a job whatever the ads say: part of what the site requires (M4, F1, F2).

A site's ad holds for all its queues, and tells the most that any of them has; which of them take the job is
seen here.
"""

import numpy as np

from pilotage.brokerage.engine import local_checks
from pilotage.brokerage.engine.check import NEVER, Check, Verdict, check
from pilotage.brokerage.engine.needs import memory_at, walltime_at, without_source
from pilotage.brokerage.engine.offered import offered
from pilotage.brokerage.engine.queue_columns import QueueColumns
from pilotage.brokerage.engine.task_columns import TaskColumns

_MEMORY = ("base_memory", "core_memory", "cores")
_WALLTIME = ("cpu_work", "base_time", "walltime", "cores")


@check("M4", "queue's status", "operator", lifted_by="the queue is set online")
def _status(_: TaskColumns, queues: QueueColumns) -> Verdict:
    """Online or standby, and no unified queue, which stands for its pseudo-queues."""
    return Verdict((~queues.online | queues.unified)[None, :], "online", queues.status)


@check("M4", "queue's name", "user", reads=("preassignment",), lifted_by="name other queues in the task")
def _named(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """One that the task names, where it names any."""
    named = tasks.preassigned[tasks.preassignment[:, 0]]
    return Verdict((tasks.preassignment > 0) & ~named, "a queue that the task names", queues.names)


@check("M4", "queue's cores", "user", reads=("cores",), unit="cores", lifted_by="ask for fewer cores")
def _cores(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """No fewer than a job asks for; 0 is any."""
    return Verdict((queues.cores > 0) & (tasks.cores > queues.cores), tasks.cores, queues.cores)


@check("M4", "queue's GPUs", "user", reads=("gpus",), unit="GPUs", lifted_by="ask for fewer GPUs")
def _gpus(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """No fewer than a job asks for."""
    return Verdict(tasks.gpus > queues.gpus, tasks.gpus, queues.gpus)


@check("M4", "queue's memory", "user", reads=_MEMORY, unit="MB", lifted_by="ask for less memory")
def _memory(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """``max_memory`` is no less than a job may use; 0 is no limit."""
    need = memory_at(tasks, queues)
    return Verdict((queues.max_memory > 0) & (need > queues.max_memory), need, queues.max_memory)


@check("M4", "queue's walltime", "user", reads=_WALLTIME, unit="s", lifted_by="give each job less to do")
def _walltime(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """``max_walltime`` is no less than a job takes there; work at unknown power is not judged."""
    need = walltime_at(tasks.cpu_work, tasks, queues, np.inf)
    return Verdict((queues.max_walltime > 0) & (need > queues.max_walltime), need, queues.max_walltime)


@check("M4", "queue's software", "user", reads=("release",), lifted_by="ask for a release that is offered")
def _software(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The queue has the release, where it publishes its releases."""
    return offered("releases", tasks.tables.releases, tasks.release, queues)


@check("M4", "queue's containers", "user", reads=("container",), lifted_by="ask for an image that is offered")
def _containers(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The queue has the container, where it publishes its containers."""
    return offered("containers", tasks.tables.containers, tasks.container, queues)


@check("M4", "queue's input", "wait", reads=("inputs",), lifted_by="a storage with the input is opened")
def _inputs(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Every input file is at its storage, or can be brought there."""
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
    _inputs,
    *local_checks.CHECKS,
)
