"""The checks whose answers stay constant within a cycle, by family. No check knows another.

B36 changes with every placed job, and stands in ``placement.py``. Link and transfer counts (B6, B7, B24) are
those of the snapshot: a job placed only now has nothing to transfer to its nucleus yet.
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
"""In the order of the rules; Pilotage's own (F) and the sites' (M) come last. A check's index is its bit
in the refusal matrix."""

__all__ = ["CHECKS", "Check", "Verdict"]
