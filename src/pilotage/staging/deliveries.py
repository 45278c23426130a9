"""Follow what movers report of deliveries: arrived, failed, or still moving."""

from collections import defaultdict
from collections.abc import Iterable

from pilotage.model.decision import Change, Decision, Touch
from pilotage.model.sources import Sources
from pilotage.model.states import TransferState
from pilotage.model.work import Transfer
from pilotage.model.world import World

from . import retries


def observed(world: World) -> Decision:
    """Finish what was delivered, try again what failed, and keep alive what moves.

    What is told of a transfer that is not DELIVERING, or of a former attempt, changes nothing. The commit
    hands back those of which that became true since: their deliveries are given up by whoever runs them.
    """
    known = {(transfer.id, transfer.attempt): transfer for transfer in world.transfers}
    told: dict[str, list[Transfer]] = defaultdict(list)
    errors: dict[int, str] = {}
    for sighting in world.deliveries:
        transfer = known.get((sighting.transfer, sighting.attempt))
        if transfer is not None and transfer.state is TransferState.DELIVERING:
            told[sighting.state].append(transfer)
            errors[transfer.id] = sighting.error
    changes: list[Change] = list(retries.after_deliveries(told["delivered"], world.time))
    changes += _failures(world, told["failed"], errors)
    changes += _heartbeats(world, told["moving"])
    return Decision(step="deliver", time=world.time, seed=world.seed, changes=tuple(changes))


def _failures(world: World, failed: Iterable[Transfer], errors: dict[int, str]) -> list[Change]:
    sources = Sources(world.federation)
    holders: dict[str, set[str]] = defaultdict(set)
    for replica in world.replicas:
        holders[replica.file].add(replica.storage)
    return [
        retries.after_failure(
            transfer,
            errors[transfer.id],
            world.time,
            world.federation.staging,
            sources.ranked(holders[transfer.file], transfer.destination),
        )
        for transfer in failed
    ]


def _heartbeats(world: World, moving: Iterable[Transfer]) -> list[Change]:
    """At a fifth of the time-out: any pass may tell of bytes that moved."""
    oldest = world.time - world.federation.staging.delivery_timeout / 5
    ordered = sorted(
        (t for t in moving if (t.since if t.heartbeat is None else t.heartbeat) <= oldest),
        key=lambda transfer: transfer.id,
    )
    if not ordered:
        return []
    ids, attempts = tuple(t.id for t in ordered), tuple(t.attempt for t in ordered)
    return [Touch(kind="transfer", ids=ids, attempts=attempts, changes={"heartbeat": world.time})]
