"""Discovery of computing element adapters: entry points of the group ``pilotage.computing``, by kind."""

from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pilotage.model.records.federation import ComputingElement
from pilotage.ports import adapters
from pilotage.ports.computing import ComputingElementPort

if TYPE_CHECKING:
    from .batch.hosts import Hosts

GROUP = "pilotage.computing"
METHODS = ("submit", "poll", "cancel", "capacity")


def installed() -> Mapping[str, EntryPoint]:
    """The kinds of computing elements that have an adapter on this machine."""
    return adapters.installed(GROUP)


def load(element: ComputingElement) -> ComputingElementPort:
    """Make the adapter for ``element.kind`` from ``element.options``.

    Raises AdapterError where this machine has none that can be used, and ValueError where the adapter refuses
    its options.
    """
    made: ComputingElementPort = adapters.factory(GROUP, element.kind)(element.options)
    adapters.check_methods(made, f"computing element kind {element.kind!r}", METHODS)
    return made


@runtime_checkable
class SharesHosts(Protocol):
    """An adapter that reaches a host by a connection which others may use too."""

    def share(self, hosts: "Hosts") -> None:
        """Use these hosts from now on."""


class SharedLoader:
    """Makes adapters for one server: those that lead to the same host share its connection.

    ``server_url`` is where the server answers on its own machine, to which tunnels lead back.
    """

    def __init__(self, server_url: str = "") -> None:
        self._server_url = server_url

    @cached_property
    def _hosts(self) -> "Hosts":
        # Made for the first that shares one: a server without batch systems has not loaded what they need.
        from .batch.hosts import Hosts

        return Hosts(self._server_url)

    def __call__(self, element: ComputingElement) -> ComputingElementPort:
        """Make the adapter as :func:`load` does."""
        made = load(element)
        if isinstance(made, SharesHosts):
            made.share(self._hosts)
        return made
