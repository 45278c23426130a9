"""Stations: names that tasks use to choose sites, and jobs to find their data (M2, M3)."""

from collections.abc import Iterable, Mapping

from pilotage.model.records.advertisements import Advertisement, Constant, usable
from pilotage.model.records.federation import Federation, Site, Storage


def station_of(storage: Storage) -> str:
    """Return the station of a storage: its site's name if none is declared."""
    return storage.station or storage.site


def told_stations(attributes: Mapping[str, Constant]) -> tuple[str, ...]:
    """Return the stations in the attributes of a site or its operators; empty if there are none."""
    return tuple(attributes.get("StationNames") or filter(None, [attributes.get("StationName")]))


def payload_variables(site: Site, storage: Storage, attributes: Mapping[str, Constant]) -> dict[str, str]:
    """Return variables that give a payload its site, its station, and the target of its events (M2).

    Attributes of the site or its operators count before the federation. If they name several stations, the
    one of the queue's storage counts, or else the first.
    """
    stations, storage_station = told_stations(attributes), station_of(storage)
    variables = {
        "PILOTAGE_SITE": site.name,
        "PILOTAGE_STATION": stations[0] if stations and storage_station not in stations else storage_station,
    }
    monitoring = attributes.get("MonitoringUrl", site.monitoring_url)
    return variables | ({"PILOTAGE_MONITORING_URL": monitoring} if monitoring else {})


def stations_of(federation: Federation) -> Mapping[str, tuple[str, ...]]:
    """Return the stations of each site's queues, by the site's name."""
    storages = {storage.name: storage for storage in federation.storages}
    stations: dict[str, set[str]] = {site.name: set() for site in federation.sites}
    for queue in federation.queues:
        if queue.storage in storages and queue.site in stations:
            stations[queue.site].add(station_of(storages[queue.storage]))
    return {site: tuple(sorted(names)) for site, names in stations.items()}


def known_stations(federation: Federation, ads: Iterable[Advertisement]) -> set[str]:
    """Return every station that a task may name: of storages, of operators, and of the sites' own ads."""
    attributes = [*(site.attributes for site in federation.sites), *(ad.attributes for ad in ads)]
    advertised = (told_stations(usable(part)[0]) for part in attributes)
    return {name for names in (*stations_of(federation).values(), *advertised) for name in names}
