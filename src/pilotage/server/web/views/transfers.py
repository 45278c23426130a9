"""Transfers: slots of shares and lists for operators; one transfer for people with its file's scope."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from pydantic import BaseModel
from starlette.routing import Route

from pilotage.model.records.states import TransferState
from pilotage.model.records.transfer_queues import TRANSFER_QUEUES
from pilotage.model.records.work import Transfer
from pilotage.server.api.data.transfers import find_visible, with_set_aside
from pilotage.server.api.work.explanations import explained_transfer, slot_accounts
from pilotage.server.web.pages import Cursor, Page, Staleness, Visit, command, view

ROWS = 100
"""Transfers of a page."""

MOST_SHARES = 50
"""Most shares of a queue of slots, those with most slots or transfers."""


class TransferQuery(BaseModel):
    """The parameters of the list's address."""

    state: TransferState | None = None
    after: Cursor = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSlots:
    """The slots of a share: held, of these in emergency, and promised; and its transfers that wait."""

    share: str
    priority: int
    occupied: int
    emergency: int
    promised: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotQueue:
    """The slots of one of the three queues that transfers pass."""

    name: str
    slots: int
    occupied: int
    shares: Sequence[ShareSlots]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransfersModel:
    """Who holds slots, and the newest transfers."""

    query: TransferQuery
    queues: Sequence[SlotQueue]
    counts: Mapping[str, int]
    transfers: Sequence[Transfer]
    total: int | None
    next_page: str


def transfers(visit: Visit) -> Page:
    """Show how many slots each share holds and was promised, and the newest transfers."""
    visit.for_operators("see all transfers")
    query = visit.query(TransferQuery)
    counts = visit.store.transfer_queries.counts_by_share()
    page = visit.store.queries.transfers(query.state, ROWS, query.after)
    model = TransfersModel(
        query=query,
        queues=_queues(visit),
        counts=sum(map(Counter, counts.values()), Counter[str]()),
        transfers=with_set_aside(visit.store, page),
        total=page.total,
        next_page=visit.next_page(page),
    )
    parameters = {"limit": ROWS, **query.model_dump(mode="json", exclude_defaults=True)}
    return Page(
        template="transfers.html",
        title="Transfers",
        section="Transfers",
        model=model,
        json=f"/transfers?{urlencode(parameters)}",
        command=command("transfers", state=query.state),
        stale=Staleness(kinds=("transfer",), seconds=5),
    )


def _queues(visit: Visit) -> list[SlotQueue]:
    live = visit.store.transfer_queries.live()
    _, accounts = slot_accounts(visit.runtime)
    queues = []
    for queue in TRANSFER_QUEUES:
        account = accounts[queue.name]
        emergency, waiting = Counter[str](), Counter[str]()
        for group in live:
            emergency[group.share] += (
                group.transfers if group.emergency and group.state is queue.holding else 0
            )
            waiting[group.share] += group.transfers if group.state is queue.waiting else 0
        shares = [
            ShareSlots(
                share=name,
                priority=share["priority"],
                occupied=share["held"],
                emergency=emergency[name],
                promised=share["entitled"],
                waiting=waiting[name],
            )
            for name, share in account["shares"].items()
        ]
        shares.sort(key=lambda share: (-share.occupied, -share.waiting, share.share))
        occupied = sum(share.occupied for share in shares)
        queues.append(
            SlotQueue(name=queue.name, slots=account["slots"], occupied=occupied, shares=shares[:MOST_SHARES])
        )
    return queues


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferModel:
    """One transfer."""

    transfer: Transfer
    lines: Sequence[str]


def transfer(visit: Visit) -> Page:
    """Show the life of a transfer, and the reason why it waits."""
    record = find_visible(visit.store, visit.caller, visit.number("transfer"))
    model = TransferModel(transfer=record, lines=explained_transfer(visit.runtime, record).lines)
    return Page(
        template="transfer.html",
        title=f"Transfer {record.id}",
        section="Transfers",
        model=model,
        json=f"/transfers/{record.id}/explain",
        command=command("explain", f"transfer:{record.id}"),
        stale=Staleness(everybody=True, kinds=("transfer",)),
    )


ROUTES: Sequence[Route] = (view("/transfers", transfers), view("/transfers/{transfer:number}", transfer))
