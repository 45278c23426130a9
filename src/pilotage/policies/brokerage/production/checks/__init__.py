"""Checks with results that stay constant within a cycle, by family. No check depends on another.

B36 changes with every placed job, so it is in ``placement.py``. Link and transfer counts (B6, B7, B24) come
from the snapshot: a job placed in this cycle has no outputs to transfer yet.
"""

from pilotage.policies.brokerage.engine import guards, local_checks
from pilotage.policies.brokerage.engine.check import Check, Verdict
from pilotage.policies.brokerage.production.checks import (
    admission,
    data_movement,
    network,
    nucleus,
    size,
    status,
    walltime,
)

CHECKS: tuple[Check, ...] = tuple(
    sorted(
        status.CHECKS
        + network.CHECKS
        + nucleus.CHECKS
        + data_movement.CHECKS
        + size.CHECKS
        + walltime.CHECKS
        + admission.CHECKS
        + local_checks.CHECKS
        + guards.LIMITS,
        key=lambda check: (check.rule[0], int(check.rule[1:])),
    )
)
"""All checks in the order of the rules; Pilotage's own rules (F) and the rules of sites (M) come last."""

__all__ = ["CHECKS", "Check", "Verdict"]
