"""Process movers' reports on deliveries: delivered, failed, or still moving."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from pilotage.model.documents.decision import Change, Decision, Touch
from pilotage.model.documents.world import World
from pilotage.model.records.observations import DeliverySighting
from pilotage.model.records.states import TransferState
from pilotage.model.records.work import Transfer
from pilotage.policies.staging import retries, storage_failures
from pilotage.policies.staging.sources_now import SourcesNow


def observed(world: World) -> Decision:
    """Finish delivered transfers, retry failed ones, and keep moving ones alive.

    Ignore reports on transfers that are not DELIVERING, or on an earlier attempt. The commit refuses
    transfers that changed since. Then the server that runs their deliveries stops them.
    """
    transfers = {(transfer.id, transfer.attempt): transfer for transfer in world.transfers}
    by_state: dict[str, list[tuple[Transfer, DeliverySighting]]] = defaultdict(list)
    for sighting in world.deliveries:
        transfer = transfers.get((sighting.transfer, sighting.attempt))
        if transfer is not None and transfer.state is TransferState.DELIVERING:
            by_state[sighting.state].append((transfer, sighting))
    delivered = [transfer for transfer, _ in by_state["delivered"]]
    changes: list[Change] = list(retries.after_deliveries(by_state["delivered"], world.time))
    changes += storage_failures.well_again(world, delivered)
    changes += _failures(world, by_state["failed"])
    changes += _heartbeats(world, [transfer for transfer, _ in by_state["moving"]])
    return Decision(step="deliver", time=world.time, seed=world.seed, changes=tuple(changes))


def _failures(world: World, failed: Sequence[tuple[Transfer, DeliverySighting]]) -> list[Change]:
    if not failed:
        return []
    now, constants = SourcesNow(world), world.federation.staging
    changes: list[Change] = []
    for transfer, sighting in failed:
        sources, error = now.ranked(transfer), sighting.error
        if retries.is_altered(transfer, sighting):
            changes += retries.after_altered(transfer, error, world.time, constants, sources)
            continue
        failing = storage_failures.failure(transfer, sighting.fault, error, world.time)
        spared = world.federation.guard.storage_attempts if failing else 0
        moved = retries.after_failure(transfer, error, world.time, constants, sources, spared, sighting.fault)
        changes.append(storage_failures.noted(moved, failing, now.breakers))
    return changes


def _heartbeats(world: World, moving: Iterable[Transfer]) -> list[Change]:
    """Write a heartbeat at most five times per time-out, although every pass may report moved bytes."""
    oldest = world.time - world.federation.staging.delivery_timeout / 5
    ordered = sorted(
        (t for t in moving if (t.since if t.heartbeat is None else t.heartbeat) <= oldest),
        key=lambda transfer: transfer.id,
    )
    if not ordered:
        return []
    ids, attempts = tuple(t.id for t in ordered), tuple(t.attempt for t in ordered)
    return [Touch(kind="transfer", ids=ids, attempts=attempts, changes={"heartbeat": world.time})]
