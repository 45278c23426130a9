"""The published number of pilots for each task queue (P2 to P4): ``director.policy: taskqueue``."""

from collections import Counter

import numpy as np

from pilotage.model.states import WAITING_PILOTS
from pilotage.model.world import World

from .demand import Demand, is_believed
from .draws import randomness
from .wants import Wants

MOST = 1e12
"""What a mean is cut at: far above any bound, far below what a draw can no longer tell apart."""


def wants(world: World, demand: Demand) -> Wants:
    """The mean (P2, P3), a draw from its Poisson distribution, and the bound less what waits (P4).

    Pilots per priority and per job are those of an iteration over the sums of all task queues that wait.
    Short jobs are boosted: CPU time is that at the queue.
    """
    constants = world.federation.director
    jobs = demand.jobs / demand.jobs.sum()
    shares = demand.shares / demand.shares.sum()
    boost = constants.max_cpu / np.maximum(demand.seconds, max(constants.lowest_cpu_boost, 1e-6))
    # Above 0, as weights of room must be.
    means = np.clip(constants.pilots_per_iteration * (shares + jobs) * boost, 1e-12, MOST)
    bounds = ((1 + constants.extra_pilot_fraction) * demand.worth).astype(np.int64) + constants.extra_pilots
    waiting = _waiting(world)
    return Wants(
        means=means,
        targets=randomness(world, "provision").poisson(means),
        bounds=bounds,
        waiting=np.array(
            [waiting[entry.queue, entry.requirements] for entry in demand.entries], dtype=np.int64
        ),
    )


def _waiting(world: World) -> Counter[tuple[str, str]]:
    """Pilots by task queue that wait at their site and have not waited too long to be believed (P4)."""
    return Counter(
        (pilot.queue, pilot.requirements)
        for pilot in world.pilots
        if pilot.state in WAITING_PILOTS and is_believed(world, pilot)
    )
