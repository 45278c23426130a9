"""Combine transfers with the same transition and the same values into one move."""

from collections.abc import Iterable, Mapping

from pilotage.model.documents.decision import Creation, Move, Value
from pilotage.model.records.states import TransferState
from pilotage.model.records.work import Transfer


def move(
    transfers: Iterable[Transfer],
    target: TransferState,
    cause: str,
    *,
    changes: Mapping[str, Value] | None = None,
    creates: Mapping[int, tuple[Creation, ...]] | None = None,
    next_attempt: bool = False,
) -> tuple[Move, ...]:
    """Return one move, by ascending id and fenced by attempt, for transfers in one state; none for none."""
    ordered = sorted(transfers, key=lambda transfer: transfer.id)
    if not ordered:
        return ()
    return (
        Move(
            kind="transfer",
            ids=tuple(transfer.id for transfer in ordered),
            attempts=tuple(transfer.attempt for transfer in ordered),
            source=ordered[0].state,
            target=target,
            cause=cause,
            changes=changes or {},
            creates=creates or {},
            next_attempt=next_attempt,
        ),
    )
