"""The verdict on the software, containers and hardware of queues, for the checks of any brokerage."""

from collections.abc import Sequence

import numpy as np

from pilotage.policies.brokerage.engine.arrays import Column
from pilotage.policies.brokerage.engine.check import NEVER, Verdict
from pilotage.policies.brokerage.engine.offers import Asked, Aspect
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns


def offered(aspect: Aspect, requests: Sequence[Asked], codes: Column, queues: QueueColumns) -> Verdict:
    """Refuse queues that lack the request. ``codes`` (T, 1) are indexes into ``requests``.

    It is evaluated once per distinct description of queues and distinct request of tasks.
    """
    if not queues.offers.is_checked(aspect):
        return NEVER
    asked = [requests[code] for code in codes[:, 0].tolist()]
    need = np.array([str(request) for request in asked], dtype=object).reshape(-1, 1)
    return Verdict(queues.offers.without(aspect, asked), need, queues.offers.texts(aspect))
