"""Ends of deliveries as evidence for storages' circuit breakers: failures, or success (F4)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pilotage.model.circuit_breakers.breaker import CircuitBreaker, open_at
from pilotage.model.circuit_breakers.storages import FailedDelivery, one_line
from pilotage.model.documents.decision import Forget, Move
from pilotage.model.documents.world import World
from pilotage.model.records.observations import OF_STORAGES, Fault
from pilotage.model.records.work import Transfer


def failure(transfer: Transfer, fault: Fault, error: str, now: float) -> FailedDelivery | None:
    """Return a failed delivery as evidence against its storages; None if the file is to blame, or no storage
    is known."""
    if fault not in OF_STORAGES:
        return None
    return _failed(
        transfer,
        transfer.source if fault in ("source", "either") else "",
        transfer.destination if fault in ("destination", "either") else "",
        error,
        now,
    )


def silence(transfer: Transfer, error: str, now: float) -> FailedDelivery | None:
    """Return the evidence of a delivery without a sign of life.

    It counts against the pair, because either storage may be to blame.
    """
    return failure(transfer, "either", error, now)


def noted(move: Move, failed: FailedDelivery | None, breakers: Sequence[CircuitBreaker]) -> Move:
    """Attach a failure to the move that it causes, unless the breaker is open."""
    if failed is None:
        return move
    if failed.end in {breaker.place for breaker in open_at(breakers, failed.time)}:
        return move
    return replace(move, creates={failed.transfer: (failed,)})


def well_again(world: World, delivered: Iterable[Transfer]) -> tuple[Forget, ...]:
    """Forget the failures of both storages after a successful delivery."""
    failing = {delivery.end for delivery in world.failed_deliveries}
    if not failing:
        return ()
    served = {
        end
        for transfer in delivered
        for end in (
            (transfer.source, ""),
            ("", transfer.destination),
            (transfer.source, transfer.destination),
        )
    }
    return (Forget(failed_at=tuple(sorted(failing & served))),) if failing & served else ()


def _failed(transfer: Transfer, source: str, destination: str, error: str, now: float) -> FailedDelivery:
    return FailedDelivery(
        transfer=transfer.id,
        attempt=transfer.attempt,
        file=transfer.file,
        source=source,
        destination=destination,
        time=now,
        error=one_line(error),
    )
