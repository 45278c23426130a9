"""The checks whose answers do not change within a cycle, by family. A check knows no other.

B36, which changes with every job that is placed, stands in ``placement.py``. Link and transfer counts
(B6, B7, B24) are the snapshot's: a job that is only now placed has nothing to transfer to its nucleus yet.
"""

from pilotage.brokerage.engine import local_checks
from pilotage.brokerage.engine.check import Check, Verdict

from . import admission, data_movement, network, nucleus, site_throttle, size, status, walltime

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
        + site_throttle.CHECKS,
        key=lambda check: (check.rule[0], int(check.rule[1:])),
    )
)
"""In the order of the rules, Pilotage's own (F) and the sites' (M) last; a check's place is its bit in the
refusal matrix."""

__all__ = ["CHECKS", "Check", "Verdict"]
