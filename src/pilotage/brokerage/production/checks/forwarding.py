"""The throttle of forwarding sites, which bounds what any brokerage hands to them: M8."""

import numpy as np

from pilotage.brokerage.engine.check import NEVER, Check, Verdict, check
from pilotage.brokerage.engine.queue_columns import QueueColumns
from pilotage.brokerage.engine.task_columns import TaskColumns


@check(
    "M8",
    "site's throttle",
    "wait",
    unit="jobs since it advertised",
    lifted_by="jobs there end, and the site advertises anew",
)
def throttle(_: TaskColumns, queues: QueueColumns) -> Verdict:
    """Fewer jobs were handed to the site since it advertised than its throttle takes."""
    forwarded = queues.live.forwarded
    if not forwarded:
        return NEVER
    most, jobs = np.full(len(queues), np.inf), np.zeros(len(queues))
    for queue, handed in forwarded.items():
        most[queue], jobs[queue] = handed.most, handed.jobs
    return Verdict((jobs >= most)[None, :], most[None, :], jobs)


CHECKS: tuple[Check, ...] = (throttle,)
