"""Log when a storage is paused, or works again (F4)."""

import logging
from collections.abc import Iterable

from pilotage.model.documents.decision import Committed, Decision, Forget, Move
from pilotage.model.documents.world import World
from pilotage.model.records.storage_rests import End, FailedDelivery, StorageRest, storage_rests

log = logging.getLogger(__name__)


def tell(world: World, decision: Decision, committed: Committed) -> None:
    """Log the pauses that began with a commit, and those that ended with a delivery."""
    new: list[FailedDelivery] = []
    cleared: set[End] = set()
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if isinstance(change, Move):
            made = (record for id_ in ids for record in change.creates.get(id_, ()))
            new += [record for record in made if isinstance(record, FailedDelivery)]
        elif isinstance(change, Forget):
            cleared.update(change.failed_at)
    if not (new or cleared):
        return
    before = _rests(world, ())
    for rest in before:
        if rest.end in cleared:
            log.warning("%s goes on: something was delivered", rest.what)
    if new:
        known = {(rest.end, rest.until) for rest in before}
        for rest in _rests(world, new):
            if (rest.end, rest.until) not in known:
                log.warning("%s", rest.text)


def _rests(world: World, new: Iterable[FailedDelivery]) -> tuple[StorageRest, ...]:
    return storage_rests((*world.failed_deliveries, *new), world.federation.staging, world.time)
