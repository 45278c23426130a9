"""Checks: small frozen objects that judge all tasks on all queues in one call."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pilotage.model.documents.decision import Asked, Label
from pilotage.model.documents.remarks import Mend
from pilotage.policies.brokerage.engine.arrays import Codes, Column, Mask
from pilotage.policies.brokerage.engine.job_groups import Group
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns

MEGABYTE = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Values per queue that differ by kind of task: a table (K, Q), and for each task the number of its row
    (T,)."""

    table: Column
    of: Codes

    @property
    def values(self) -> Column:
        """Return the values for each task: (T, Q)."""
        return self.table[self.of]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check: ``refused``, and the numbers that decided, ``need`` and ``have``. All broadcast
    to (T, Q).

    ``need`` is a single value, (T, 1) or (T, Q). ``have`` is a single value, (Q,), (T, Q) or ``Rows``, stored
    once for all tasks of a kind. ``lifted_by`` replaces the check's text if it depends on measurements.
    """

    refused: Mask
    need: Any
    have: Any
    lifted_by: str = ""


OPENED = "pilotage queues open, or status: online in the federation's file"
"""The remedy for a queue that is drained, closed, or not online by the federation's file."""

NEVER = Verdict(np.zeros((1, 1), dtype=bool), 0, 0)
"""Refuses no queue: for checks about a property that no queue declares."""

Judge = Callable[[TaskColumns, QueueColumns], Verdict]
Asking = Callable[[Group], tuple[Asked, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Label):
    """A judge with a label. ``reads`` names the task columns that it reads.

    ``asks`` returns the task fields behind the need, so that users learn what to change. A check that is not
    ``optional`` runs even if its rule is switched off.
    """

    judge: Judge
    reads: tuple[str, ...] = ()
    asks: Asking | None = None
    optional: bool = True


def check(
    rule: str,
    name: str,
    mend: Mend,
    *,
    reads: tuple[str, ...] = (),
    unit: str = "",
    lifted_by: str = "",
    asks: Asking | None = None,
    optional: bool = True,
) -> Callable[[Judge], Check]:
    """Return a decorator that turns a judging function into a check."""

    def make(judge: Judge) -> Check:
        return Check(
            rule=rule,
            name=name,
            mend=mend,
            judge=judge,
            reads=reads,
            unit=unit,
            lifted_by=lifted_by,
            asks=asks,
            optional=optional,
        )

    return make
