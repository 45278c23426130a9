"""Variables that describe a site to payloads, as cached by one process (M2)."""

from collections.abc import Mapping

from pilotage.flow.cache import Cache
from pilotage.model.records.advertisements import Constant, usable
from pilotage.model.records.federation import Federation, Queue
from pilotage.model.rules.stations import payload_variables
from pilotage.store import Pass, Store


class SiteVariables:
    """Caches facts from sites' advertisements for some seconds. Safe to use from many threads."""

    def __init__(self, store: Store) -> None:
        def read(time: float) -> Mapping[str, Mapping[str, Constant]]:
            world = store.snapshots.read(Pass(time, 0, 1), ("advertisements",))
            return {ad.site: ad.attributes for ad in world.advertisements}

        self._advertised = Cache(read)

    def of(self, federation: Federation, queue: Queue, time: float) -> dict[str, str]:
        """Return variables for payloads at a queue, at a time in s since 1970: its site, station and
        monitoring URL."""
        site = next(site for site in federation.sites if site.name == queue.site)
        storage = next(storage for storage in federation.storages if storage.name == queue.storage)
        attributes, _ = usable(site.attributes, self._advertised.at(time).get(site.name, {}))
        return payload_variables(site, storage, attributes)
