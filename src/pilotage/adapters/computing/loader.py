"""Discover computing element adapters by kind, in the entry point group ``pilotage.computing``."""

from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pilotage.model.records.federation import ComputingElement
from pilotage.ports import adapters
from pilotage.ports.computing import ComputingElementPort

if TYPE_CHECKING:
    from pilotage.adapters.computing.batch.hosts import Hosts

GROUP = "pilotage.computing"
METHODS = ("submit", "poll", "cancel", "capacity")


def installed() -> Mapping[str, EntryPoint]:
    """Return the kinds of computing elements that have an adapter on this machine."""
    return adapters.installed(GROUP)


def load(element: ComputingElement) -> ComputingElementPort:
    """Make the adapter for ``element.kind`` from ``element.options``.

    Raises AdapterError if this machine has no usable adapter, and ValueError if the adapter refuses its
    options.
    """
    adapter: ComputingElementPort = adapters.factory(GROUP, element.kind)(element.options)
    adapters.check_methods(adapter, f"computing element kind {element.kind!r}", METHODS)
    return adapter


@runtime_checkable
class SharesHosts(Protocol):
    """An adapter that reaches a host over a connection that others may share."""

    def share(self, hosts: "Hosts") -> None:
        """Use these hosts from now on."""


class SharedLoader:
    """Makes adapters for one server. Adapters that lead to the same host share its connection.

    ``server_url`` is the server's address on its own machine, where tunnels end. Without one, the adapters
    open no tunnel: a command that only reads changes nothing at a site.
    """

    def __init__(self, server_url: str = "") -> None:
        self._server_url = server_url

    @cached_property
    def _hosts(self) -> "Hosts":
        # Import this with the first adapter that shares hosts: other servers never load it.
        from pilotage.adapters.computing.batch.hosts import Hosts

        return Hosts(self._server_url)

    def __call__(self, element: ComputingElement) -> ComputingElementPort:
        """Make the adapter like ``load``."""
        adapter = load(element)
        if isinstance(adapter, SharesHosts):
            adapter.share(self._hosts)
        return adapter
