"""Queues and global shares, with their current load."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Response

from pilotage.flow.calls import circuit_breakers
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import DatedChoice

from .access import FOR_PEOPLE
from .answers import answer, documented
from .breakers import ShownBreaker, shown
from .dependencies import PREFIX, TheRuntime, TheStore, Width
from .explanations import QueueExplanation, explained_queue
from .views import Queues, Shares

router = APIRouter(prefix=PREFIX, tags=["queues"])


@router.get("/queues", dependencies=[FOR_PEOPLE], responses=documented(Queues, 409))
def get_queues(runtime: TheRuntime) -> Response:
    """Every queue, with the number of its jobs and pilots in each state, and its circuit breakers."""
    now = runtime.clock()
    tripped: dict[str, list[ShownBreaker]] = defaultdict(list)
    for one in circuit_breakers.of_queues(runtime):
        tripped[one.place[0]].append(shown(one, now))
    found = runtime.store.queries.queues()
    return answer({"queues": [{**asdict(queue), "breakers": tripped[queue.name]} for queue in found]})


QueueName = Annotated[str, Path(max_length=200)]


@router.get(
    "/queues/{queue}/explain", dependencies=[FOR_PEOPLE], responses=documented(QueueExplanation, 404, 409)
)
def get_explanation(queue: QueueName, runtime: TheRuntime, width: Width = 0) -> Response:
    """Explain one queue: its limits, its load, what was seen of it, and why nothing starts."""
    return explained(runtime, queue, (), width)


def explained(runtime: Runtime, queue: str, choices: Sequence[DatedChoice], width: int) -> Response:
    """Return the explanation of a queue; 404 if no queue has this name."""
    found = explained_queue(runtime, queue, choices, width)
    if found is None:
        raise HTTPException(404, f"there is no queue {queue!r}; pilotage queues lists them")
    return answer(found)


@router.get("/shares", dependencies=[FOR_PEOPLE], responses=documented(Shares, 409))
def get_shares(store: TheStore) -> Response:
    """Every global share, with the number of its jobs and transfers in each state."""
    return answer({"shares": store.queries.shares()})
