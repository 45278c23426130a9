"""Transfers, and their priorities (D9)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, HTTPException, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.work.remarks import set_aside_errors
from pilotage.flow.transfer_priorities import set_priorities
from pilotage.model.records.states import TransferState
from pilotage.model.records.work import Transfer
from pilotage.model.values.identity import Credential
from pilotage.model.values.scopes import split_identifier
from pilotage.model.values.types import LARGEST_ID, Whole
from pilotage.server.api.data.readable_scopes import reads_scope
from pilotage.server.api.edge.access import FOR_OPERATORS, Manager, Person, actor
from pilotage.server.api.edge.answers import answer, documented, listed
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import PREFIX, After, Form, Id, Limit, TheRuntime, TheStore
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.views import Transfers
from pilotage.server.api.work.explanations import TransferExplanation, explained_transfer
from pilotage.store import Store

router = APIRouter(prefix=f"{PREFIX}/transfers", tags=["transfers"], route_class=MeasuredRoute)


class TransferPriority(BaseModel, extra="forbid"):
    """A live transfer and its new DTR priority."""

    id: Annotated[Whole, Field(ge=1, le=LARGEST_ID)]
    priority: Annotated[Whole, Field(ge=1, le=100)]


class Priorities(RequestBody):
    """Priorities of several transfers. If one occurs twice, the last entry counts."""

    priorities: Annotated[list[TransferPriority], Field(max_length=100_000)]


class Changed(BaseModel):
    """The transfers that are live and now have the priority."""

    changed: list[int]


class MovingTransfer(BaseModel):
    """A transfer in delivery: the bytes of its file, and the bytes moved so far.

    ``moved`` is null if another server's mover delivers it.
    """

    id: int
    attempt: int
    file: str
    source: str
    destination: Annotated[str, Field(description="The storage that it is brought to.")]
    share: str
    since: float
    size: int
    moved: Annotated[int | None, Field(description="Bytes moved so far; null: by another server.")]


class TransferProgress(BaseModel):
    """All transfers by state, also for each share, and those in delivery.

    The answer holds for ``time``, in s since 1970 UTC.
    """

    time: float
    counts: Annotated[dict[str, int], Field(description="Transfers by state.")]
    shares: Annotated[dict[str, dict[str, int]], Field(description="Transfers by share and state.")]
    delivering: Annotated[list[MovingTransfer], Field(description="What is delivered now, by number.")]


@router.get("", dependencies=[FOR_OPERATORS], responses=documented(Transfers))
def get_transfers(
    store: TheStore, state: TransferState | None = None, limit: Limit = 100, after: After = ""
) -> Response:
    """Transfers, newest first. A transfer that a step has set aside has the reason as its error."""
    page = store.queries.transfers(state, limit, after)
    return listed("transfers", page, with_set_aside(store, page))


def with_set_aside(store: Store, transfers: Iterable[Transfer]) -> list[Transfer]:
    """Return transfers. One that a step has set aside has the step's failure as its error."""
    errors = set_aside_errors(store, "transfer")
    return [
        replace(transfer, error=transfer.error or errors.get(str(transfer.id), "")) for transfer in transfers
    ]


@router.get("/progress", dependencies=[FOR_OPERATORS], responses=documented(TransferProgress))
def get_progress(runtime: TheRuntime) -> Response:
    """Transfers by state, and the progress of those in delivery. Two answers give a rate."""
    moved, queries = runtime.deliveries.moved(), runtime.store.transfer_queries
    delivering = [
        MovingTransfer(
            id=transfer.id,
            attempt=transfer.attempt,
            file=transfer.file,
            source=transfer.source,
            destination=transfer.destination,
            share=transfer.share,
            since=transfer.since,
            size=size,
            moved=moved.get(transfer.id),
        )
        for transfer, size in queries.delivering()
    ]
    shares = queries.counts_by_share()
    counts = sum(map(Counter, shares.values()), Counter[str]())
    return answer(TransferProgress(time=runtime.clock(), counts=counts, shares=shares, delivering=delivering))


@router.get("/{transfer}/explain", responses=documented(TransferExplanation, 404, 409))
def get_explanation(transfer: Id, caller: Person, runtime: TheRuntime, text: Form) -> Response:
    """Explain a transfer: its share, priority and place, the holders of slots, and its likely start."""
    record = find_visible(runtime.store, caller, transfer)
    return answer(explained_transfer(runtime, record, text))


def find_visible(store: Store, caller: Credential, transfer: int) -> Transfer:
    """Return a transfer if the caller may see its file; else 404."""
    record = store.transfer_queries.transfer(transfer)
    if record is None or not reads_scope(caller, split_identifier(record.file)[0]):
        raise HTTPException(404, f"there is no transfer {transfer}, or its file is in no scope of yours")
    return record


@router.post("/priorities", responses=documented(Changed))
def post_priorities(body: Priorities, caller: Manager, runtime: TheRuntime) -> Response:
    """Change the priorities of transfers. A manager changes those of files of the VO and its people."""
    priorities = {item.id: item.priority for item in body.priorities}
    if caller.role == "manager":
        files = runtime.store.transfer_queries.moved_files(priorities)
        of_vo = {id_ for id_, file in files.items() if reads_scope(caller, split_identifier(file)[0])}
        priorities = {id_: priority for id_, priority in priorities.items() if id_ in of_vo}
    changed = set_priorities(runtime, list(priorities.items()), actor(caller))
    return answer({"changed": changed})
