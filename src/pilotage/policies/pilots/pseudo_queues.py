"""The order of pseudo-queues for a pilot of their unified queue (B2, P13)."""

from collections.abc import Mapping

import numpy as np

from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.work import Pilot
from pilotage.policies.pilots.fitting import offered
from pilotage.policies.pilots.share_turns import ShareTurns
from pilotage.policies.pilots.task_queue_columns import TaskQueueColumns
from pilotage.policies.pilots.weighted_draw import WaitingShares, WeightedDraw, weights


def in_turn(
    queues: Mapping[str, TaskQueueColumns],
    request: MatchRequest,
    pilot: Pilot,
    seed: int,
    turns: ShareTurns | None = None,
) -> list[str]:
    """Return the names of queues in the order that a pilot tries them.

    The global share that is furthest below its target goes first. A queue is drawn in proportion to the
    weights of the task queues that the pilot could run. Queues without fitting task queues come last: the
    pilot may borrow jobs for them.
    """
    if len(queues) < 2:
        return list(queues)
    names, has = list(queues), offered(request, pilot)
    heads, shares = np.zeros(len(names)), [""] * len(names)
    for place, columns in enumerate(queues.values()):
        rows = np.flatnonzero((columns.heads > 0) & columns.table.fitting(has))
        if len(rows):
            heads[place] = weights(columns.heads[rows], columns.table.needs.owner[rows]).sum()
            present = [columns.share_names[number] for number in np.unique(columns.shares[rows])]
            shares[place] = turns.first(present) if turns else present[0]
    share_names = list(dict.fromkeys(shares))
    numbers = np.array([share_names.index(share) for share in shares])
    waiting = WaitingShares.among(numbers, share_names, turns) if turns else None
    order = WeightedDraw(seed, request.pilot, heads, np.arange(len(names)), shares=waiting)
    drawn: list[str] = []
    while (turn := order.draw()) is not None:
        drawn.append(names[turn])
        order.follow(turn, 0)
    return [*drawn, *(name for name in names if name not in drawn)]
