"""Links to the nucleus and the network of the worker nodes: B5, B6, B7, B22, B27."""

import numpy as np

from pilotage.policies.brokerage.engine.arrays import Column
from pilotage.policies.brokerage.engine.check import Check, Rows, Verdict, check
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns

TOLERANCE = 1e-9
"""Relative tolerance of a comparison with a product of constants (B27)."""

REACH = {"": 0, "none": 0, "http": 1, "full": 2}
"""Levels of connectivity. A queue with a higher level also serves jobs that need less."""


def _row(table: Column, tasks: TaskColumns) -> Column:
    return table[tasks.nucleus[:, 0]]


@check("B5", "link blocked", "operator", reads=("nucleus",), lifted_by="the link is opened")
def link_blocked(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse queues with a storage that has a blocked link to the nucleus: its closeness is -1."""
    del queues
    return Verdict(_row(tasks.links.blocked, tasks), "open link to the nucleus", "blocked")


@check("B6", "link full", "wait", reads=("nucleus",), unit="files", lifted_by="transfers on the link drain")
def link_full(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse queues with more than ``nqueued_sat_cap`` files queued on the link of their storage."""
    del queues
    cap = tasks.constant("nqueued_sat_cap")
    files = Rows(tasks.links.files, tasks.nucleus[:, 0])
    return Verdict(~_row(tasks.links.here, tasks) & (files.values > cap), cap, files)


@check(
    "B7",
    "nucleus full",
    "wait",
    reads=("nucleus",),
    unit="files",
    lifted_by="transfers to the nucleus drain",
)
def nucleus_full(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse queues outside the nucleus if more than ``nqueued_nuc_cap_for_jobs`` outputs are in transfer to
    it."""
    del queues
    cap = tasks.constant("nqueued_nuc_cap_for_jobs")
    files = _row(tasks.links.arriving, tasks)
    return Verdict(~_row(tasks.links.here, tasks) & (files > cap), cap, files)


@check(
    "B22",
    "connectivity",
    "user",
    reads=("ip_connectivity",),
    lifted_by="ask for less connectivity or no IP stack",
)
def connectivity(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues with at least the task's level of connectivity, and with its IP stack if it names one."""
    requests = [_parsed(value) for value in tasks.ip_connectivity[:, 0]]
    kinds = [_parsed(value) for value in queues.connectivity_kinds]
    refused = [
        [reach > reaches or stack not in ("", queue_stack) for reaches, queue_stack in kinds]
        for reach, stack in requests
    ]
    mask = np.array(refused, dtype=bool)[:, queues.connectivity_code]
    return Verdict(mask, tasks.ip_connectivity, queues.connectivity)


@check(
    "B27",
    "urgent",
    "wait",
    reads=("urgent", "nucleus"),
    unit="network weight",
    lifted_by="the link to the nucleus gets faster or drains",
)
def urgent(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Urgent work, or work from priority 1000, needs a network weight of ``nw_threshold`` x multiplier."""
    del queues
    need = tasks.constant("nw_threshold") * tasks.constant("nw_weight_multiplier")
    weight = Rows(tasks.links.weight, tasks.nucleus[:, 0])
    # Without a nucleus every queue is "here", so the check does not apply. At the nucleus itself it applies
    # only if its weight of 2.5 is too low.
    applies = tasks.urgent & _row(tasks.links.exists, tasks)
    return Verdict(applies & (weight.values < need * (1 - TOLERANCE)), need, weight)


def _parsed(connectivity: str) -> tuple[float, str]:
    network, _, stack = connectivity.partition("#")
    return REACH.get(network, np.inf), stack


CHECKS: tuple[Check, ...] = (link_blocked, link_full, nucleus_full, connectivity, urgent)
