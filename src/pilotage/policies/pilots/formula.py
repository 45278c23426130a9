"""The published number of pilots for each task queue (P2 to P4): ``director.policy: taskqueue``."""

import numpy as np

from pilotage.model.documents.world import World
from pilotage.model.values.step_names import PROVISION
from pilotage.policies.pilots.apportionment import Wants
from pilotage.policies.pilots.demand import Demand, believed_waiting, most_waiting
from pilotage.policies.pilots.weighted_draw import randomness

MOST = 1e12
"""Limit of a mean: far above any bound, and far below where draws lose precision."""


def wants(world: World, demand: Demand) -> Wants:
    """Return for each task queue the mean (P2, P3), a Poisson draw with this mean, and the bound and the
    waiting pilots (P4).

    The iteration's number is divided twice, by priority and by jobs, over all waiting task queues. Each
    counts with its own priority, not with its owner's share. Short jobs get a boost. CPU time is measured at
    the queue.
    """
    constants = world.federation.director
    jobs = demand.jobs / demand.jobs.sum()
    priorities = demand.priorities / demand.priorities.sum()
    boost = constants.max_cpu / np.maximum(demand.seconds, max(constants.lowest_cpu_boost, 1e-6))
    # Above 0, because weights of room must be.
    means = np.clip(constants.pilots_per_iteration * (priorities + jobs) * boost, 1e-12, MOST)
    # Pilots with slots for all jobs, and for the queue's own jobs, rounded up.
    worth = -(-demand.jobs // demand.slots)
    own_worth = -(-(demand.jobs - demand.elsewhere) // demand.slots)
    bounds = (
        np.array([most_waiting(constants, pilots) for pilots in own_worth.tolist()], dtype=np.int64)
        + worth
        - own_worth
    )
    waiting = believed_waiting(world)
    return Wants(
        means=means,
        targets=randomness(world, PROVISION).poisson(means),
        bounds=bounds,
        waiting=np.array(
            [waiting[entry.queue, entry.requirements] for entry in demand.entries], dtype=np.int64
        ),
    )
