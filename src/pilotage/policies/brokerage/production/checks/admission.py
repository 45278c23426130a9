"""Work that a queue declares to accept: fair shares, software and hardware, event service: B10, B14, B23."""

import numpy as np

from pilotage.policies.brokerage.engine.check import NEVER, Check, Verdict, check
from pilotage.policies.brokerage.engine.local_checks import offered
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns


@check("B10", "zero share", "operator", reads=("work",), lifted_by="the fairshare_policy gives a share")
def zero_share(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The queue's ``fairshare_policy`` gives more than 0. Work that no entry matches gets the remainder."""
    kinds = queues.fairshare_kinds
    if not any(policy.entries for policy in kinds):
        return NEVER
    answers = [queues.no_share(tasks.tables.works[code]) for code in tasks.work[:, 0].tolist()]
    mask = np.array(answers, dtype=bool)[:, queues.fairshare_code]
    return Verdict(mask, "a share above 0", queues.fairshare)


@check("B14", "software", "user", reads=("release",), lifted_by="ask for a release that is offered")
def software(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The queue has the release, cache or nightly for the platform, unless it accepts ANY."""
    return offered("releases", tasks.tables.releases, tasks.release, queues)


@check("B14", "container", "user", reads=("container",), lifted_by="ask for a container that is offered")
def container(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The queue has the container, by name, by path or as a tag, unless it accepts ANY release."""
    return offered("containers", tasks.tables.containers, tasks.container, queues)


@check("B14", "hardware", "user", reads=("machine",), lifted_by="ask for hardware that is offered")
def hardware(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The queue has the CPU and GPU, and does not reserve them for tasks that request them.

    Accept queues that do not publish their hardware.
    """
    return offered("hardware", tasks.tables.machines, tasks.machine, queues)


@check("B23", "event service", "user", reads=("event_service", "high"), lifted_by="change event_service")
def event_service(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """``std`` refuses event service, ``es`` all other work, ``eshigh`` event service below priority 800."""
    admission = queues.event_service
    if (admission == "all").all():
        return NEVER
    ordinary = ~tasks.event_service & (admission == "es")
    service = tasks.event_service & ((admission == "std") | ((admission == "eshigh") & ~tasks.high))
    return Verdict(ordinary | service, np.where(tasks.event_service, "event service", "std"), admission)


CHECKS: tuple[Check, ...] = (zero_share, software, container, hardware, event_service)
