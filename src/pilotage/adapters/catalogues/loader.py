"""Discover adapters of catalogues by kind, in the entry point group ``pilotage.catalogues``."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint

from pilotage.model.records.catalogues import ExternalCatalogue
from pilotage.model.records.federation import Federation
from pilotage.ports import adapters
from pilotage.ports.catalogue import CataloguePort

GROUP = "pilotage.catalogues"
METHODS = ("matching", "dataset")
FOR_OUTPUTS = ("check_output", "publish")


def installed() -> Mapping[str, EntryPoint]:
    """Return the kinds of catalogues that have an adapter on this machine."""
    return adapters.installed(GROUP)


def load(declared: ExternalCatalogue, federation: Federation) -> CataloguePort:
    """Make the adapter for ``declared.kind``.

    Raises AdapterError if this machine has no usable adapter, and ValueError if the adapter refuses its
    options.
    """
    prefixes = {storage.name: f"{storage.url.rstrip('/')}/" for storage in federation.storages}
    rses = {
        storage.rse: (storage.storage, storage.prefix or prefixes[storage.storage])
        for storage in declared.storages
    }
    catalogue: CataloguePort = adapters.factory(GROUP, declared.kind)(declared.name, rses, declared.options)
    methods = (*METHODS, *FOR_OUTPUTS) if declared.outputs else METHODS
    adapters.check_methods(catalogue, f"catalogue kind {declared.kind!r}", methods)
    return catalogue
