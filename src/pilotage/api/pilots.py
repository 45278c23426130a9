"""Pilots, as people see them."""

from fastapi import APIRouter, Response

from pilotage.model.states import PilotState
from pilotage.model.work import Name

from .access import FOR_OPERATORS
from .answers import answer, documented
from .parts import Limit, TheStore
from .views import Pilots

router = APIRouter(prefix="/pilots", tags=["pilots"])


@router.get("", dependencies=[FOR_OPERATORS], responses=documented(Pilots))
def get_pilots(
    store: TheStore,
    state: PilotState | None = None,
    queue: Name | None = None,
    limit: Limit = 100,
) -> Response:
    """Pilots, newest first."""
    return answer({"pilots": store.queries.pilots(state, queue, limit)})
