"""Requests for transfers.

A live transfer serves all requests for the same file and storage, with the best share and priority (D2).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, bindparam, select, update

from pilotage.model.documents.decision import Creation
from pilotage.model.records.states import QUEUED_TRANSFERS, UNFINISHED_TRANSFERS, TransferState
from pilotage.model.records.work import NewTransfer
from pilotage.store.database.columns import is_state
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.jobs.counters import KEY_COLUMNS
from pilotage.store.transfers.table import transfers

_x = transfers.c
_LIVE = select(
    *(_x.file, _x.source, _x.destination, _x.direction, _x.share, _x.priority, _x.share_priority),
    *(_x.id, _x.state, _x.size_class),
).where(among(_x.file, "names"), is_state(transfers, *UNFINISHED_TRANSFERS))
_RAISE = (
    update(transfers)
    .where(_x.id == bindparam("of"))
    .values(share=bindparam("best_share"), share_priority=bindparam("best_base"), priority=bindparam("best"))
)


_PATHS = select(_x.file, _x.destination, _x.source_path).where(
    among(_x.file, "names"), is_state(transfers, *UNFINISHED_TRANSFERS)
)


def held_up(connection: Connection, creates: Mapping[int, Sequence[Creation]]) -> frozenset[int]:
    """Return the records that must wait because a live upload brings the same file from another attempt.

    The decision did not see that upload. The next pass ends it first.
    """
    uploads = [
        (id_, creation)
        for id_, records in creates.items()
        for creation in records
        if isinstance(creation, NewTransfer) and creation.direction == "upload"
    ]
    if not uploads:
        return frozenset()
    names = sorted({creation.file for _, creation in uploads})
    live = {row[:2]: row[2] for row in map(tuple, raw_rows(connection, _PATHS, names=names))}
    return frozenset(
        id_
        for id_, creation in uploads
        if live.get((creation.file, creation.destination), creation.source_path) != creation.source_path
    )


@dataclass(frozen=True, slots=True)
class LiveTransfer:
    """A transfer that is not delivered yet. While it is queued, a request may raise it."""

    id: int
    state: TransferState
    request: NewTransfer
    size_class: str

    @property
    def keys(self) -> tuple[str, ...]:
        """Return its key in the counters, in the order of ``KEY_COLUMNS``."""
        return tuple(
            self.size_class if name == "size_class" else getattr(self.request, name)
            for name in KEY_COLUMNS["transfer"]
        )

    def raised(self, new_request: NewTransfer) -> "LiveTransfer":
        """Return the transfer with the best share and priority of both requests (D2).

        A transfer with a slot stays unchanged, because its share got the slot.
        """
        if self.state not in QUEUED_TRANSFERS:
            return self
        best = new_request if new_request.share_priority > self.request.share_priority else self.request
        request = replace(
            self.request,
            share=best.share,
            share_priority=best.share_priority,
            priority=max(new_request.priority, self.request.priority),
        )
        return replace(self, request=request)


class TransferRequests:
    """The live transfers of the files that one commit requests."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._live: dict[tuple[str, str], LiveTransfer] = {}
        self._raised: dict[int, NewTransfer] = {}

    def look_up(self, requests: Iterable[NewTransfer]) -> None:
        """Read the live transfers of these files."""
        names = sorted({transfer.file for transfer in requests})
        for (
            file,
            source,
            destination,
            direction,
            share,
            priority,
            base,
            id_,
            state,
            size_class,
        ) in raw_rows(self._connection, _LIVE, names=names):
            request = NewTransfer(
                file=file,
                source=source,
                destination=destination,
                direction=direction,
                share=share,
                priority=priority,
                share_priority=base,
            )
            live = LiveTransfer(id_, TransferState(state), request, size_class)
            # The index ``transfers_once`` ensures that there is at most one.
            self._live.setdefault((file, destination), live)

    def serving(self, request: NewTransfer) -> LiveTransfer | None:
        """Return the live transfer that serves a request; None if there is none."""
        return self._live.get((request.file, request.destination))

    def add(self, id_: int, request: NewTransfer, size_class: str) -> None:
        """Add a transfer that this commit creates."""
        live = LiveTransfer(id_, TransferState.QUEUED, request, size_class)
        self._live[request.file, request.destination] = live

    def raise_for(self, request: NewTransfer) -> tuple[LiveTransfer, LiveTransfer] | None:
        """Raise the live transfer that serves a request. Return it before and after, or None if unchanged."""
        live = self._live[request.file, request.destination]
        raised = live.raised(request)
        if raised == live:
            return None
        self._live[request.file, request.destination] = raised
        self._raised[live.id] = raised.request
        return live, raised

    def write(self) -> None:
        """Write the changed live transfers."""
        rows = [
            {
                "of": id_,
                "best_share": request.share,
                "best_base": request.share_priority,
                "best": request.priority,
            }
            for id_, request in self._raised.items()
        ]
        if rows:
            self._connection.execute(_RAISE, rows)
