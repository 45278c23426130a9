"""Stations: the names by which tasks choose sites, and jobs their data (M2, M3)."""

from collections.abc import Mapping

from pilotage.model.records.federation import Federation, Storage


def station_of(storage: Storage) -> str:
    """Return the station of a storage: its site's name if none is declared."""
    return storage.station or storage.site


def stations_of(federation: Federation) -> Mapping[str, tuple[str, ...]]:
    """Return the stations of each site by name: those of its queues' storages."""
    storages = {storage.name: storage for storage in federation.storages}
    found: dict[str, set[str]] = {site.name: set() for site in federation.sites}
    for queue in federation.queues:
        if queue.storage in storages and queue.site in found:
            found[queue.site].add(station_of(storages[queue.storage]))
    return {site: tuple(sorted(names)) for site, names in found.items()}
