"""Find URLs in all parts of a federation that are invalid or contain a password."""

from collections.abc import Iterator, Mapping
from typing import Any

from pilotage.federation.faults import Fault, Path
from pilotage.model.records.federation import Federation
from pilotage.model.values.urls import url_fault

_NAMES = ("url", "endpoint", "server", "host", "proxy")
"""Endings of option names that hold servers' addresses."""

_SCHEMES = ("http://", "https://", "ssh://", "sftp://", "s3://", "root://", "roots://", "dav://", "davs://")


def url_faults(federation: Federation) -> Iterator[Fault]:
    """Yield each URL that is wrong without any network call."""
    for at, site in enumerate(federation.sites):
        if site.monitoring_url:
            yield from _faults(("sites", at, "monitoring_url"), site.monitoring_url, base=False)
    for at, storage in enumerate(federation.storages):
        path: Path = ("storages", at)
        yield from _faults((*path, "url"), storage.url)
        yield from _of_options((*path, "options"), storage.options)
        if service := storage.transfer_service:
            yield from _faults((*path, "transfer_service", "url"), service.url)
            yield from _of_options((*path, "transfer_service", "options"), service.options)
    for at, catalogue in enumerate(federation.catalogues):
        yield from _of_options(("catalogues", at, "options"), catalogue.options)
    for at, queue in enumerate(federation.queues):
        if element := queue.computing_element:
            path = ("queues", at, "computing_element")
            yield from _of_options((*path, "options"), element.options)
            for number, server in enumerate(element.servers):
                yield from _of_options((*path, "servers", number, "options"), server.options)


def _faults(path: Path, url: str, *, base: bool = True) -> Iterator[Fault]:
    if fault := url_fault(url, base=base):
        yield Fault(path, fault, "give a URL like https://host.example.org:8443/path")


def _of_options(path: Path, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Check the options that are addresses. Their adapter checks the others."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _of_options((*path, name), value)
        elif isinstance(value, str) and name.lower().endswith(_NAMES) and value.strip().startswith(_SCHEMES):
            yield from _faults((*path, name), value)
