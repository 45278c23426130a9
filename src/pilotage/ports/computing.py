"""What the house needs of a batch system, and how a computing element's kind finds its adapter."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Literal, Protocol

from pilotage.model.federation import ComputingElement

PilotStatus = Literal["waiting", "running", "ended", "unknown"]
GROUP = "pilotage.computing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOrder:
    """One pilot to start: ``cores`` and ``memory`` (MB, 0 for no limit) in all, ``walltime`` in s, ``slots``
    payloads side by side. ``working_directory`` is where it makes its own; empty: the element's choice."""

    pilot: int
    token: str = field(repr=False)
    server_url: str
    cores: int = 1
    memory: float = 0
    walltime: float = 172_800
    slots: int = 1
    working_directory: str = ""


class ComputingElementPort(Protocol):
    """A batch system. Calls may block; each raises OSError when the batch system cannot be reached."""

    def submit(self, order: PilotOrder) -> str:
        """Start a pilot agent; the answer is the batch system's reference to it."""

    def poll(self, references: Iterable[str]) -> dict[str, PilotStatus]:
        """What became of each; unknown is what cannot be found out now, which is not the same as ended."""

    def cancel(self, reference: str) -> None:
        """End a pilot and all that it started. One that has ended already is left alone."""


class UnknownComputingElementError(LookupError):
    """No installed package has an adapter for a computing element's kind."""


def load(element: ComputingElement) -> ComputingElementPort:
    """The adapter for ``element.kind``, given ``element.options``.

    Adapters are entry points of the group ``pilotage.computing``. Raises UnknownComputingElementError, and
    ValueError where the adapter does not know an option.
    """
    found = entry_points(group=GROUP)
    if element.kind not in found.names:
        known = ", ".join(sorted(found.names)) or "none"
        raise UnknownComputingElementError(f"computing element kind {element.kind!r}: installed are {known}")
    adapter: ComputingElementPort = found[element.kind].load()(element.options)
    return adapter
