"""VOs that a queue is open to: F1, a rule of this project that no published text has."""

import numpy as np

from pilotage.brokerage.engine.check import NEVER, Check, Verdict, check
from pilotage.brokerage.engine.queue_columns import QueueColumns
from pilotage.brokerage.engine.task_columns import TaskColumns


@check("F1", "VO", "operator", reads=("vo",), lifted_by="the queue is opened to the VO")
def vo(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The queue is open to the VO of the task's owner: it names that VO, or none at all."""
    if queues.vo_kinds == ((),):
        return NEVER
    refused = [
        [bool(open_to) and owner not in open_to for open_to in queues.vo_kinds] for owner in tasks.vo[:, 0]
    ]
    mask = np.array(refused, dtype=bool)[:, queues.vo_code]
    return Verdict(mask, tasks.vo, queues.vos)


CHECKS: tuple[Check, ...] = (vo,)
