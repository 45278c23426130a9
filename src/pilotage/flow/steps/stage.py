"""Files are brought to jobs and from jobs, under transfer shares (D1 to D8)."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from pilotage import movers
from pilotage.flow import scratch
from pilotage.flow.deliveries import Deliveries
from pilotage.flow.step import Pass, take
from pilotage.model.decision import Committed, Decision, Move
from pilotage.model.sources import Sources
from pilotage.model.states import TransferState
from pilotage.model.work import Transfer
from pilotage.model.world import World
from pilotage.staging import retries, settle, shares
from pilotage.store import Store


class Stager:
    """One pass records what ended, settles what arrived, and starts what has a slot."""

    def __init__(self, store: Store, on_end: Callable[[], None]) -> None:
        self._store = store
        self._deliveries = Deliveries(on_end)
        self._heartbeat = 0.0

    def run(self, now: Pass) -> int:
        """Take one pass; returns how many records changed."""
        changed = self._record_ends(now)
        world = self._store.snapshots.for_staging(now.time, now.seed, limit=now.batch)
        changed += take(self._store, retries.abandoned(world), "stage")
        changed += self._settle(world)
        decision = shares.start(world)
        if decision.changes:
            committed = self._store.commit(decision, "stage")
            changed += self._start(world, decision, committed)
        self._keep_alive(world, now)
        return changed

    def stop(self) -> None:
        """Give up what is under way: it is taken up again by whoever runs next."""
        self._deliveries.stop()

    def _settle(self, world: World) -> int:
        decision = settle.settle(world)
        if not decision.changes:
            return 0
        committed = self._store.commit(decision, "stage")
        scratch.clear(world, decision, committed)
        return sum(len(ids) for ids in committed.accepted)

    def _record_ends(self, now: Pass) -> int:
        ended = self._deliveries.ended()
        return take(
            self._store, Decision(step="deliver", time=now.time, seed=now.seed, changes=ended), "mover"
        )

    def _keep_alive(self, world: World, now: Pass) -> None:
        """Heartbeats at a fifth of the time-out; a delivery whose transfer was taken away is given up."""
        if now.time - self._heartbeat < world.federation.staging.delivery_timeout / 5:
            return
        self._heartbeat = now.time
        touch = self._deliveries.alive(now.time)
        if touch:
            decision = Decision(step="deliver", time=now.time, seed=now.seed, changes=(touch,))
            committed = self._store.commit(decision, "mover")
            self._deliveries.withdraw_all_but(set(committed.accepted[0]))

    def _start(self, world: World, decision: Decision, committed: Committed) -> int:
        transfers = {transfer.id: transfer for transfer in world.transfers}
        starting = [
            transfers[id_]
            for change, ids in zip(decision.changes, committed.accepted, strict=True)
            if isinstance(change, Move) and change.target is TransferState.DELIVERING
            for id_ in ids
        ]
        storages = {storage.name: storage for storage in world.federation.storages}
        files = {file.name: file for file in world.files}
        sources = _sources(world, starting)
        failed: list[Move] = []
        constants = world.federation.staging
        for transfer in starting:
            delivering = replace(transfer, state=TransferState.DELIVERING, since=world.time)
            try:
                order = movers.order(delivering, files[transfer.file], storages)
            except movers.DeliveryFailed as error:
                failed.append(
                    retries.after_failure(delivering, str(error), world.time, constants, sources[transfer.id])
                )
            else:
                self._deliveries.start(delivering, order, sources[transfer.id], constants)
        changes = tuple(failed)
        take(
            self._store, Decision(step="deliver", time=world.time, seed=world.seed, changes=changes), "mover"
        )
        return len(starting)


def _sources(world: World, transfers: list[Transfer]) -> dict[int, tuple[str, ...]]:
    """The storages that each transfer's file could be read from, best first."""
    ranking = Sources(world.federation)
    holders: dict[str, set[str]] = defaultdict(set)
    for replica in world.replicas:
        holders[replica.file].add(replica.storage)
    return {
        transfer.id: ranking.ranked(holders[transfer.file], transfer.destination) for transfer in transfers
    }
