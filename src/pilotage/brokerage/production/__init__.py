"""The production brokerage (rules B): checks as masks over columns, weights, and jobs spread by weight.

    world ─▶ groups of like jobs ─▶ columns ─▶ checks ─▶ weights, places ─▶ decision

In this order: ``groups``; ``columns``, ``links``, ``nuclei`` and ``tasks``; ``checks`` and ``verdicts``;
``placement``; ``broker``. What others add to it stands in ``extensions``.

A queue's attribute is a column of shape (Q,), a task's one of shape (T, 1); a check gives a mask over
(T, Q). Every check runs on every queue; the reasons are made from the arrays that decided.
"""

from .broker import Production
from .checks.check import NEVER, Check, Verdict, check
from .columns import QueueColumns
from .extensions import Factor, Order, Ranking, factor, order
from .groups import Group
from .tasks import TaskColumns

__all__ = [
    "NEVER",
    "Check",
    "Factor",
    "Group",
    "Order",
    "Production",
    "QueueColumns",
    "Ranking",
    "TaskColumns",
    "Verdict",
    "check",
    "factor",
    "order",
]
