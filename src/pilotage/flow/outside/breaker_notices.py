"""Notices in the log when the circuit breaker of a storage opens, or closes (F4)."""

import logging

from pilotage.model.circuit_breakers.storages import End, FailedDelivery, storage_breakers
from pilotage.model.documents.decision import Committed, Decision, Forget, Move
from pilotage.model.documents.world import World

log = logging.getLogger(__name__)


def tell(world: World, decision: Decision, committed: Committed) -> None:
    """Log the breakers that a commit opened, and the ones that a delivery closed."""
    new: list[FailedDelivery] = []
    cleared: set[End] = set()
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if isinstance(change, Move):
            records = (record for id_ in ids for record in change.creates.get(id_, ()))
            new += [record for record in records if isinstance(record, FailedDelivery)]
        elif isinstance(change, Forget):
            cleared.update(change.failed_at)
    if not (new or cleared):
        return
    before = world.storage_breakers
    for breaker in before:
        if breaker.place in cleared:
            log.warning("%s: circuit breaker closed, something was delivered", breaker.what)
    if new:
        failed = (*world.failed_deliveries, *new)
        for breaker in storage_breakers(failed, world.federation.staging, world.time):
            if breaker not in before:
                log.warning("%s", breaker.sentence)
