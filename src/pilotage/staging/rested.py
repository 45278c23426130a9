"""The news of storages in the end of a delivery: they failed once more, or they are well again (F4)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pilotage.model.documents.decision import Forget, Move
from pilotage.model.documents.world import World
from pilotage.model.records.observations import Fault
from pilotage.model.records.storage_rests import FailedDelivery, StorageRest, one_line
from pilotage.model.records.work import Transfer


def failure(transfer: Transfer, fault: Fault, error: str, now: float) -> FailedDelivery | None:
    """Return what a failed delivery says of its storages; None where its file is to blame, or none known."""
    if fault in ("", "file", "altered"):
        return None
    return _failed(
        transfer,
        transfer.source if fault in ("source", "either") else "",
        transfer.destination if fault in ("destination", "either") else "",
        error,
        now,
    )


def silence(transfer: Transfer, error: str, now: float) -> FailedDelivery | None:
    """Return what a delivery without a sign of life says: either storage may be to blame, the pair is."""
    return failure(transfer, "either", error, now)


def noted(move: Move, failed: FailedDelivery | None, rests: Sequence[StorageRest]) -> Move:
    """Record a failure with the move that it brings about; of what rests nothing is counted."""
    if failed is None:
        return move
    if any(rest.end == failed.end and failed.time < rest.until for rest in rests):
        return move
    return replace(move, creates={failed.transfer: (failed,)})


def well_again(world: World, delivered: Iterable[Transfer]) -> tuple[Forget, ...]:
    """Forget the failures of storages between which something was delivered."""
    failing = {one.end for one in world.failed_deliveries}
    if not failing:
        return ()
    served = {
        end
        for one in delivered
        for end in ((one.source, ""), ("", one.destination), (one.source, one.destination))
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
