"""Work that is kept at its nucleus: B8, B25. Without a nucleus neither applies."""

from pilotage.brokerage.engine.check import Check, Verdict, check
from pilotage.brokerage.engine.queue_columns import QueueColumns
from pilotage.brokerage.engine.task_columns import TaskColumns


@check(
    "B8",
    "nucleus only",
    "user",
    reads=("nucleus", "high", "scout"),
    lifted_by="ask for a priority below 800, and for no scouts",
)
def nucleus_only(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Priority 800 and scouts run at the nucleus, and not on its opportunistic queues."""
    nucleus = tasks.nucleus[:, 0]
    away = ~tasks.links.here[nucleus] | queues.opportunistic
    refused = tasks.links.exists[nucleus] & (tasks.high | tasks.scout) & away
    return Verdict(refused, "a pledged queue of the nucleus", queues.site_names)


@check(
    "B25",
    "nucleus weight",
    "user",
    reads=("nucleus", "t1_weight", "normal"),
    lifted_by="drop the t1_weight of -1",
)
def nucleus_weight(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """``t1_weight`` -1 keeps normal jobs at the nucleus."""
    kept = (tasks.t1_weight == -1) & tasks.normal
    return Verdict(kept & ~tasks.links.here[tasks.nucleus[:, 0]], "a queue of the nucleus", queues.site_names)


CHECKS: tuple[Check, ...] = (nucleus_only, nucleus_weight)
