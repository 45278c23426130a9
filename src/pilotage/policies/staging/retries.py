"""Finish, retry or fail transfers after their delivery. Every move holds only for the ended attempt."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from pilotage.model.documents.decision import Change, Decision, Forget, Move, Value
from pilotage.model.documents.moves import moves_of
from pilotage.model.documents.world import World
from pilotage.model.records.constants import longer_each_time
from pilotage.model.records.federation import StagingConstants
from pilotage.model.records.observations import DeliverySighting, Fault
from pilotage.model.records.states import TransferState
from pilotage.model.records.work import Replica, Transfer
from pilotage.policies.staging.sources_now import SourcesNow
from pilotage.policies.staging.storage_failures import noted, silence

LONGEST_WAY = 300
"""Most characters of the text on how a file was moved."""


def after_deliveries(delivered: Iterable[tuple[Transfer, DeliverySighting]], now: float) -> tuple[Move, ...]:
    """Return moves DELIVERING->DELIVERED: the bytes are there, with the right size and checksum.

    ``now`` in s since 1970.
    """
    by_way: dict[str, list[Transfer]] = defaultdict(list)
    for transfer, sighting in delivered:
        by_way[sighting.way[:LONGEST_WAY]].append(transfer)
    ended: dict[str, Value] = {"ended": now, "error": "", "heartbeat": None, "emergency": False}
    return tuple(
        move
        for method, transfers in sorted(by_way.items())
        for move in moves_of(
            transfers, TransferState.DELIVERED, "delivered", changes={**ended, "way": method}
        )
    )


def after_failure(
    transfer: Transfer,
    error: str,
    now: float,
    constants: StagingConstants,
    sources: tuple[str, ...],
    spared: int = 0,
    fault: Fault = "",
) -> Move:
    """Return a move DELIVERING->QUEUED as the next attempt from the next source, or else ->FAILED.

    ``sources`` are the storages that hold the file, best first (``Sources.ranked``). A transfer from a job's
    scratch area has only that source. It gets ``spared`` further attempts if a storage is to blame, because
    otherwise its payload would run again (F4). The wait before attempt n + 1 is ``retry_delay`` x 2 to the
    power n - 1, in s, an hour at most. An untried source is tried without a wait.
    """
    max_attempts = constants.max_attempts + (spared if transfer.source_path else 0)
    sources = (transfer.source,) if transfer.source_path else sources
    if not sources or transfer.attempt >= max_attempts:
        reason = error if sources else f"{error}; no other storage holds {transfer.file}"
        over: dict[str, Value] = {"error": reason, "fault": fault, "ended": now, "heartbeat": None}
        return moves_of([transfer], TransferState.FAILED, "out of tries, or of sources", changes=over)[0]
    # If the failed source has left the list, the best one is next.
    turn = sources.index(transfer.source) + 1 if transfer.source in sources else 0
    is_untried = transfer.attempt < len(sources)
    delay = 0.0 if is_untried else longer_each_time(constants.retry_delay, transfer.attempt)
    return moves_of(
        [transfer],
        TransferState.QUEUED,
        "delivery failed",
        changes={
            "source": sources[turn % len(sources)],
            "wake_at": now + delay,
            "error": error,
            "fault": fault,
            "heartbeat": None,
            "emergency": False,
        },
        next_attempt=True,
    )[0]


def is_altered(transfer: Transfer, sighting: DeliverySighting) -> bool:
    """Return whether a file is altered at its source.

    The same wrong values twice cannot come from damage in transfer.
    """
    return sighting.fault == "altered" and sighting.error == transfer.error


def after_altered(
    transfer: Transfer, error: str, now: float, constants: StagingConstants, sources: tuple[str, ...]
) -> tuple[Change, ...]:
    """Forget the replica at a transfer's source.

    The transfer tries another source, or is FAILED if there is none.
    """
    reason = f"{transfer.file} is altered at {transfer.source}, where it was read twice: {error}"
    if transfer.source_path:
        over: dict[str, Value] = {"error": reason, "fault": "altered", "ended": now, "heartbeat": None}
        return moves_of([transfer], TransferState.FAILED, "altered at its source", changes=over)
    other_sources = tuple(source for source in sources if source != transfer.source)
    gone = Replica(file=transfer.file, storage=transfer.source)
    return after_failure(transfer, reason, now, constants, other_sources), Forget(replicas=(gone,))


def abandoned(world: World) -> Decision:
    """Retry DELIVERING transfers if their server has ended; if only the heartbeat is missing for
    ``delivery_timeout`` s, count a failure.

    A delivery that hangs every time, or kills its server, ends FAILED after its last attempt.
    """
    lost = [transfer for transfer in world.transfers if _is_lost(transfer, world)]
    changes = _taken_back(world, lost) if lost else []
    return Decision(step="staging.abandoned", time=world.time, seed=world.seed, changes=tuple(changes))


def _taken_back(world: World, lost: Iterable[Transfer]) -> list[Change]:
    constants, now = world.federation.staging, SourcesNow(world)
    spared = world.federation.guard.storage_attempts
    changes: list[Change] = []
    for transfer in sorted(lost, key=lambda transfer: transfer.id):
        ranked = now.ranked(transfer) or (transfer.source,)
        if transfer.server in world.servers_gone:
            changes.append(_put_back(transfer, world.time, constants, ranked))
        else:
            error = f"no heartbeat of its delivery for {constants.delivery_timeout:g} s"
            failed = after_failure(transfer, error, world.time, constants, ranked, spared, "either")
            changes.append(noted(failed, silence(transfer, error, world.time), now.breakers))
    return changes


def _is_lost(transfer: Transfer, world: World) -> bool:
    """Return whether a delivery's server is gone, or silent for too long."""
    if transfer.state is not TransferState.DELIVERING:
        return False
    last = transfer.since if transfer.heartbeat is None else transfer.heartbeat
    silent = world.time - last > world.federation.staging.delivery_timeout
    return silent or transfer.server in world.servers_gone


def _put_back(transfer: Transfer, now: float, constants: StagingConstants, sources: tuple[str, ...]) -> Move:
    """Retry without a wait from the same source, which is not to blame, while attempts are left."""
    tried = after_failure(transfer, "the server that delivered it has ended", now, constants, sources)
    if tried.target is TransferState.FAILED:
        return tried
    return replace(tried, changes={**tried.changes, "source": transfer.source, "wake_at": None})
