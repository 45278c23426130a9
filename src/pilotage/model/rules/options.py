"""Options of a federation, which may hold credentials."""

from dataclasses import replace

from pilotage.model.records.federation import ComputingElement, Federation


def without_options(federation: Federation) -> Federation:
    """Return the federation without options: of storages, computing elements with their servers and
    credentials, catalogues and plugins."""
    queues = tuple(
        replace(queue, computing_element=queue.computing_element and _bare(queue.computing_element))
        for queue in federation.queues
    )
    storages = tuple(replace(storage, options={}) for storage in federation.storages)
    catalogues = tuple(replace(catalogue, options={}) for catalogue in federation.catalogues)
    return replace(federation, queues=queues, storages=storages, catalogues=catalogues, plugin_options={})


def _bare(element: ComputingElement) -> ComputingElement:
    # Servers' and owners' options add to their element's options, so they hold credentials as well.
    servers = tuple(replace(server, options={}) for server in element.servers)
    credentials = tuple(replace(credential, options={}) for credential in element.credentials)
    return replace(element, options={}, servers=servers, credentials=credentials)
