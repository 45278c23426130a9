"""Limits on the duration of jobs: B20, B21."""

import numpy as np

from pilotage.model.records.federation import UNKNOWN_CORE_POWER
from pilotage.policies.brokerage.engine.arrays import Column, Mask
from pilotage.policies.brokerage.engine.check import NEVER, Check, Verdict, check
from pilotage.policies.brokerage.engine.needs import walltime_at
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns
from pilotage.policies.brokerage.production.checks import asking

LONG_ENOUGH = 24 * 3600.0


@check(
    "B20",
    "long enough for scouts",
    "user",
    reads=("scout",),
    unit="s",
    lifted_by="ask for no scouts",
    asks=asking.no_scouts,
)
def long_enough_for_scouts(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Scouts need 24 h."""
    return Verdict(tasks.scout & _short(queues), LONG_ENOUGH, queues.max_walltime)


@check("B20", "long enough", "operator", reads=("merge",), unit="s", lifted_by="a longer queue")
def long_enough(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Merge jobs need 24 h."""
    return Verdict(tasks.merge & _short(queues), LONG_ENOUGH, queues.max_walltime)


@check(
    "B20",
    "walltime unknown",
    "user",
    reads=("walltime_known",),
    unit="s",
    lifted_by="say the walltime or CPU time",
)
def unknown_walltime(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Jobs with unknown walltime need 24 h."""
    return Verdict(~tasks.walltime_known & _short(queues), LONG_ENOUGH, queues.max_walltime)


@check(
    "B21",
    "walltime",
    "user",
    reads=("cpu_work", "base_time", "walltime", "cores"),
    unit="s",
    lifted_by="give each job less to do",
    asks=asking.walltime,
)
def walltime(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The expected walltime, by the queue's core power, is less than ``max_walltime``."""
    refused, need = _too_long(tasks, queues)
    is_comparable = ~np.isnan(queues.core_power) | (tasks.cpu_work == 0)
    return Verdict(refused & is_comparable, need, queues.max_walltime)


@check(
    "B21",
    "walltime, core power unknown",
    "user",
    reads=("cpu_work", "base_time", "walltime", "cores"),
    unit="s",
    lifted_by="give each job less to do",
    asks=asking.walltime,
)
def walltime_at_unknown_power(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The expected walltime at queues without a declared core power: assume 10 HS23. The check's name shows
    that."""
    unknown = np.isnan(queues.core_power)
    if not unknown.any():
        return NEVER
    refused, need = _too_long(tasks, queues)
    return Verdict(refused & unknown & (tasks.cpu_work > 0), need, queues.max_walltime)


@check(
    "B21",
    "least walltime",
    "user",
    reads=("most_cpu_work", "base_time", "walltime", "walltime_known", "cores"),
    unit="s",
    lifted_by="give each job more to do",
    asks=asking.most_walltime,
)
def least_walltime(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The expected walltime of the most events, if known, is at least ``min_walltime``."""
    if not queues.min_walltime.any():
        return NEVER
    need = expected_walltime(tasks.most_cpu_work, tasks, queues)
    return Verdict(tasks.walltime_known & (need < queues.min_walltime), need, queues.min_walltime)


def _too_long(tasks: TaskColumns, queues: QueueColumns) -> tuple[Mask, Column]:
    need = expected_walltime(tasks.cpu_work, tasks, queues)
    return (queues.max_walltime > 0) & (need >= queues.max_walltime), need


def expected_walltime(work: Column, tasks: TaskColumns, queues: QueueColumns) -> Column:
    """Return the seconds that this work (HS23 s) takes with the job's cores at each queue."""
    return walltime_at(work, tasks, queues, UNKNOWN_CORE_POWER)


def _short(queues: QueueColumns) -> Mask:
    short: Mask = (queues.max_walltime > 0) & (queues.max_walltime < LONG_ENOUGH)
    return short


CHECKS: tuple[Check, ...] = (
    long_enough_for_scouts,
    long_enough,
    unknown_walltime,
    walltime,
    walltime_at_unknown_power,
    least_walltime,
)
