"""Queues and global shares, with what is there now."""

from fastapi import APIRouter, Response

from .access import FOR_PEOPLE
from .answers import answer, documented
from .parts import TheStore
from .views import Queues, Shares

router = APIRouter(tags=["queues"])


@router.get("/queues", dependencies=[FOR_PEOPLE], responses=documented(Queues, 409))
def get_queues(store: TheStore) -> Response:
    """Every queue, with the number of its jobs and pilots in each state."""
    return answer({"queues": store.queries.queues()})


@router.get("/shares", dependencies=[FOR_PEOPLE], responses=documented(Shares, 409))
def get_shares(store: TheStore) -> Response:
    """Every global share, with the number of its jobs and transfers in each state."""
    return answer({"shares": store.queries.shares()})
