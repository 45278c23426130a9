"""Passes of steps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of a step: its time (s since 1970, UTC), its random seed, and how many records it may take.

    It leaves out some tasks ``apart``, at which the step failed.
    """

    time: float
    seed: int
    batch: int
    apart: frozenset[int] = frozenset()
