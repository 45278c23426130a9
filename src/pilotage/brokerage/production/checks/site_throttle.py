"""The throttle of sites, which limits the jobs that any brokerage sends there: M8."""

import numpy as np

from pilotage.brokerage.engine.check import NEVER, Check, Verdict, check
from pilotage.brokerage.engine.queue_columns import QueueColumns
from pilotage.brokerage.engine.task_columns import TaskColumns


@check(
    "M8",
    "site's throttle",
    "wait",
    unit="jobs of ours at the site",
    lifted_by="jobs there end, or its batch system answers",
)
def throttle(_: TaskColumns, queues: QueueColumns) -> Verdict:
    """Fewer jobs are at the site than its limits allow.

    A job counts from its match to its end, whoever runs it.
    """
    throttled = queues.live.throttled
    if not throttled:
        return NEVER
    most, jobs = np.full(len(queues), np.inf), np.zeros(len(queues))
    for queue, (limit, count) in throttled.items():
        most[queue], jobs[queue] = limit, count
    return Verdict((jobs >= most)[None, :], most[None, :], jobs)


CHECKS: tuple[Check, ...] = (throttle,)
