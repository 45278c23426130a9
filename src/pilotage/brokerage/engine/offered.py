"""The verdict on what queues offer of software, containers and hardware, for the checks of any brokerage."""

from collections.abc import Sequence

import numpy as np

from .arrays import Column
from .check import NEVER, Verdict
from .offers import Asked, Aspect
from .queue_columns import QueueColumns


def offered(aspect: Aspect, requests: Sequence[Asked], codes: Column, queues: QueueColumns) -> Verdict:
    """Refuse queues without what is asked; ``codes`` (T, 1) are places in ``requests``.

    Evaluated once for each distinct description of queues and distinct request of tasks.
    """
    if not queues.offers.is_checked(aspect):
        return NEVER
    asked = [requests[code] for code in codes[:, 0].tolist()]
    need = np.array([str(request) for request in asked], dtype=object).reshape(-1, 1)
    return Verdict(queues.offers.without(aspect, asked), need, queues.offers.texts(aspect))
