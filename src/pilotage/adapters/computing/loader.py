"""Discover computing element adapters by kind, in the entry point group ``pilotage.computing``."""

from collections.abc import Collection, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

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
    """Make the adapter for ``element.kind`` from ``element.options``, with the element's credential if it
    has one (see ``ComputingElement.at``).

    Raises AdapterError if this machine has no usable adapter, and ValueError if the adapter refuses its
    options.
    """
    factory = adapters.factory(GROUP, element.kind)
    adapter: ComputingElementPort = factory(_options(element, getattr(factory, "credential_options", ())))
    adapters.check_methods(adapter, f"computing element kind {element.kind!r}", METHODS)
    return adapter


def _options(element: ComputingElement, names: Collection[str]) -> Mapping[str, Any]:
    """Return the options of an element, with a credential's in place of all that are credentials."""
    if not element.credentials:
        return element.options
    credential = element.credentials[0]
    if not names:
        raise ValueError(f"kind {element.kind!r} takes no credentials of persons or groups: leave them out")
    if not credential.options or not set(credential.options) <= set(names):
        raise ValueError(
            f"the credential of {credential.name} has the options {sorted(credential.options)}; "
            f"give some of {sorted(names)}, and no others"
        )
    common = {name: value for name, value in element.options.items() if name not in names}
    return {**common, **credential.options}


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
