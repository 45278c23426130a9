"""Records without progress for longer than is usual for their kind, or because a person must act."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.work import stuck
from pilotage.server.api.edge.access import FOR_OPERATORS
from pilotage.server.api.edge.answers import answer, documented
from pilotage.server.api.edge.dependencies import PREFIX, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute

router = APIRouter(prefix=f"{PREFIX}/stuck", tags=["health"], route_class=MeasuredRoute)


class Stuck(BaseModel):
    """Stuck records, the worst first."""

    stuck: Annotated[list[stuck.StuckRecords], Field(description="By how far they exceed their limits.")]


@router.get("", dependencies=[FOR_OPERATORS], responses=documented(Stuck, 409))
def get_stuck(runtime: TheRuntime) -> Response:
    """Records without progress for longer than usual, or because a person must act; why, and what to do.

    The usual times come from the newest records that ended, by kind, state and place, above a floor.
    """
    return answer(Stuck(stuck=stuck.everything(runtime)))
