"""The current sources of transfers: storages that hold the file, with tripped breakers last (F4)."""

from collections import defaultdict

from pilotage.model.documents.world import World
from pilotage.model.records.states import TransferState
from pilotage.model.records.transfer_queues import PREPARING, TransferQueue
from pilotage.model.records.unable_ways import UnableWays
from pilotage.model.records.work import Transfer
from pilotage.model.rules.sources import Sources
from pilotage.model.rules.transfer_limits import Room


class SourcesNow:
    """The sources of a world's transfers."""

    def __init__(self, world: World) -> None:
        self.breakers = world.storage_breakers
        self._sources = Sources(world.federation, self.breakers)
        self._holders: dict[str, set[str]] = defaultdict(set)
        for replica in world.replicas:
            self._holders[replica.file].add(replica.storage)
        self._unable = UnableWays.of(world.federation.storages, world.unable)

    def ranked(self, transfer: Transfer) -> tuple[str, ...]:
        """Return the possible sources of a transfer, best first.

        If this server can use only some of them, return only these.
        """
        ranked = self._sources.ranked(self._holders[transfer.file], transfer.destination)
        able = tuple(storage for storage in ranked if not self._unable.reason(storage, transfer.destination))
        return able or ranked

    def is_unable(self, transfer: Transfer) -> bool:
        """Return whether this server cannot deliver a waiting transfer from its source."""
        if not self._unable.reasons:
            return False
        is_settled = transfer.state is not TransferState.QUEUED
        source = transfer.source if is_settled else self.settled(transfer) or transfer.source
        return bool(self._unable.reason(source, transfer.destination))

    def settled(self, transfer: Transfer) -> str:
        """Return the source of a transfer that is being prepared; empty if none is readable.

        A first attempt takes the best source now, because rates and replicas may have changed since the
        request. Later attempts keep the source that ``retries`` chose, while it has the file and works.
        """
        if transfer.source_path:
            return transfer.source
        ranked = self.ranked(transfer)
        serves = transfer.source in ranked and not self._sources.is_tripped(
            transfer.source, transfer.destination
        )
        return transfer.source if transfer.attempt > 1 and serves else next(iter(ranked), "")


def room_of(world: World, queue: TransferQueue) -> Room:
    """Return the remaining room of storages and links for a queue, by the current sources."""
    breakers, sources = world.storage_breakers, {}
    if breakers and queue is PREPARING:
        now = SourcesNow(world)
        queued = (transfer for transfer in world.transfers if transfer.state is TransferState.QUEUED)
        sources = {transfer.id: now.settled(transfer) or transfer.source for transfer in queued}
    return Room(world.federation, world.transfers, queue, breakers, world.time, sources)
