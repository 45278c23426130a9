"""The production brokerage (rules B): its checks, its weight, and the spreading of jobs by weight.

    world ─▶ groups of like jobs ─▶ columns ─▶ checks ─▶ weights, places ─▶ decision

The engine makes groups and columns and runs the checks. This package has the ``checks``, ``placement``
(weights and spreading), ``cycle`` (one pass), and ``extensions`` for additions by organisations.
"""

from pilotage.policies.brokerage.engine.check import NEVER, Check, Verdict, check
from pilotage.policies.brokerage.engine.job_groups import Group
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns
from pilotage.policies.brokerage.production.cycle import Production
from pilotage.policies.brokerage.production.extensions import CandidateOrder, Factor, Ranking, factor, order

__all__ = [
    "NEVER",
    "CandidateOrder",
    "Check",
    "Factor",
    "Group",
    "Production",
    "QueueColumns",
    "Ranking",
    "TaskColumns",
    "Verdict",
    "check",
    "factor",
    "order",
]
