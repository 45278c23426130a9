"""Discovery of computing element adapters: entry points of the group ``pilotage.computing``, by kind."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint

from pilotage.model.federation import ComputingElement
from pilotage.ports import adapters
from pilotage.ports.computing import ComputingElementPort

from .batch import BatchElement
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


class SharedLoader:
    """Makes adapters for one server: those that lead to the same host share its connection.

    ``server_url`` is where the server answers on its own machine, to which tunnels lead back.
    """

    def __init__(self, server_url: str = "") -> None:
        self._hosts = Hosts(server_url)

    def __call__(self, element: ComputingElement) -> ComputingElementPort:
        """Make the adapter as :func:`load` does."""
        made = load(element)
        if isinstance(made, BatchElement):
            made.share(self._hosts)
        return made
