"""Storages that are paused because deliveries fail there: which they are, and how a person lifts the pause
(F4)."""

import logging

from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Decision, Forget
from pilotage.model.records.storage_rests import StorageRest, storage_rests
from pilotage.model.records.storage_spaces import FreeSpace, free_spaces
from pilotage.model.values.step_names import STAGE

log = logging.getLogger(__name__)


def rests(runtime: Runtime) -> tuple[StorageRest, ...]:
    """Return the current pauses, and those due for a trial. Raises :class:`NoFederation`."""
    staging = runtime.store.federation().staging
    return storage_rests(runtime.store.transfer_queries.failed_deliveries(), staging, runtime.clock())


def spaces(runtime: Runtime) -> dict[str, FreeSpace]:
    """Return the current free space of each storage, by name (B18). Raises :class:`NoFederation`."""
    told = runtime.store.transfer_queries.storage_spaces()
    return free_spaces(runtime.store.federation(), told, runtime.clock())


def lift(runtime: Runtime, storage: str, actor: str) -> tuple[StorageRest, ...]:
    """Forget every failure at a storage, in all roles. Return the pauses that this ends."""
    ends = {one.end for one in runtime.store.transfer_queries.failed_deliveries() if storage in one.end}
    lifted = tuple(rest for rest in rests(runtime) if rest.end in ends)
    if ends:
        begun = runtime.begin(1)
        change = Forget(failed_at=tuple(sorted(ends)))
        decision = Decision(step="storages", time=begun.time, seed=begun.seed, changes=(change,))
        runtime.store.commit(decision, actor)
        for rest in lifted:
            log.warning("%s goes on: lifted by %s", rest.what, actor)
        runtime.wakeups.wake(STAGE)
    return lifted
