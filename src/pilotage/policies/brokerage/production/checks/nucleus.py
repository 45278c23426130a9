"""Work that stays at its nucleus: B8, B25. Neither applies to tasks without a nucleus."""

import numpy as np

from pilotage.policies.brokerage.engine.check import Check, Verdict, check
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns
from pilotage.policies.brokerage.production.checks import asking

PLEDGED = "a pledged queue"
"""The need of work that only prefers its nucleus."""


@check(
    "B8",
    "nucleus only",
    "user",
    reads=("nucleus", "high", "scout", "prefers_nucleus"),
    lifted_by="ask for a priority below 800, and for no scouts",
    asks=asking.nucleus,
)
def nucleus_only(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Work from priority 800, and scouts, run at the nucleus, and not on opportunistic queues.

    If the nucleus is only preferred (``high_priority: prefer``), other sites may run them too.
    """
    nucleus = tasks.nucleus[:, 0]
    away = ~tasks.links.here[nucleus] & ~tasks.prefers_nucleus
    stays = tasks.links.exists[nucleus] & (tasks.high | tasks.scout)
    need = np.where(tasks.prefers_nucleus, PLEDGED, f"{PLEDGED} of the nucleus")
    return Verdict(stays & (away | queues.opportunistic), need, queues.site_names)


@check(
    "B25",
    "nucleus weight",
    "user",
    reads=("nucleus", "t1_weight", "normal", "scout"),
    lifted_by="drop the t1_weight of -1",
)
def nucleus_weight(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """``t1_weight`` -1 keeps normal jobs, and their scouts, at the nucleus."""
    stays = (tasks.t1_weight == -1) & (tasks.normal | tasks.scout)
    return Verdict(
        stays & ~tasks.links.here[tasks.nucleus[:, 0]], "a queue of the nucleus", queues.site_names
    )


CHECKS: tuple[Check, ...] = (nucleus_only, nucleus_weight)
