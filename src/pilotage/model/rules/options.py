"""Options of a federation, which may hold credentials."""

from dataclasses import replace

from pilotage.model.records.federation import ComputingElement, Federation


def without_options(federation: Federation) -> Federation:
    """Return the federation without options: of storages, computing elements, their servers, catalogues
    and plugins."""
    queues = tuple(
        replace(queue, computing_element=queue.computing_element and _bare(queue.computing_element))
        for queue in federation.queues
    )
    storages = tuple(replace(storage, options={}) for storage in federation.storages)
    catalogues = tuple(replace(catalogue, options={}) for catalogue in federation.catalogues)
    return replace(federation, queues=queues, storages=storages, catalogues=catalogues, plugin_options={})


def _bare(element: ComputingElement) -> ComputingElement:
    # A server's options add to its element's options, so they hold credentials as well.
    servers = tuple(replace(server, options={}) for server in element.servers)
    return replace(element, options={}, servers=servers)
