"""Transfers, and their priorities (D9)."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.priorities import set_priorities
from pilotage.model.states import TransferState

from .access import FOR_OPERATORS, Operator, actor
from .answers import answer, documented
from .parts import LARGEST_ID, Limit, TheRuntime, TheStore
from .views import Transfers

router = APIRouter(prefix="/transfers", tags=["transfers"])


class TransferPriority(BaseModel, extra="forbid"):
    """A live transfer and the DTR priority it is given."""

    id: Annotated[int, Field(ge=1, le=LARGEST_ID)]
    priority: Annotated[int, Field(ge=1, le=100)]


class Priorities(BaseModel, extra="forbid"):
    """Priorities of several transfers; where one is named twice the last word counts."""

    priorities: Annotated[list[TransferPriority], Field(max_length=100_000)]


class Changed(BaseModel):
    """The transfers that are live and have the priority now."""

    changed: list[int]


@router.get("", dependencies=[FOR_OPERATORS], responses=documented(Transfers))
def get_transfers(store: TheStore, state: TransferState | None = None, limit: Limit = 100) -> Response:
    """Transfers, newest first."""
    return answer({"transfers": store.queries.transfers(state, limit)})


@router.post("/priorities", responses=documented(Changed))
def post_priorities(body: Priorities, caller: Operator, runtime: TheRuntime) -> Response:
    """Give transfers other priorities."""
    wanted = {item.id: item.priority for item in body.priorities}
    changed = set_priorities(runtime, list(wanted.items()), actor(caller))
    return answer({"changed": changed})
