"""Jobs of generated work: the expected number, before any is drawn."""

from math import exp, log
from statistics import NormalDist

from pilotage.model.records.spec import MOST_JOBS
from pilotage.simulation.scenario import GeneratedWork

SHORT = 0.1
"""Jobs of a short task, and their work, relative to other tasks."""

MOST_DRAWN = 10_000_000
"""Most jobs of a simulation: a million take five minutes and more than a GB."""


def expected(work: GeneratedWork) -> float:
    """Return the expected number of jobs of all tasks together, over all seeds."""
    short = work.short * _mean(work.jobs * SHORT, work.jobs_spread)
    return work.tasks * (short + (1 - work.short) * _mean(work.jobs, work.jobs_spread))


def _mean(median: float, spread: float) -> float:
    """Return the mean of a lognormal number of jobs that is capped at the most jobs of a task.

    Without the cap, a wide spread would count jobs that are never drawn.
    """
    if not spread:
        return min(MOST_JOBS, max(1.0, median))
    below = NormalDist().cdf
    most = log(MOST_JOBS / median) / spread
    inside = median * exp(spread**2 / 2) * below(most - spread)
    return max(1.0, inside + MOST_JOBS * (1 - below(most)))
