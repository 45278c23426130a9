"""The port to the processes of servers on one store: which of them are gone."""

from collections.abc import Iterable
from typing import Protocol


class Presence(Protocol):
    """This process under a unique name, and what is known of others by theirs."""

    @property
    def name(self) -> str:
        """The name of this process; empty if it has none, and then nobody can tell that it is gone."""

    def gone(self, names: Iterable[str], /) -> frozenset[str]:
        """Return the processes that have certainly ended. Processes of another machine are unknown."""


class Unnamed:
    """A process without a name, which knows nothing of others."""

    name = ""

    def gone(self, _: Iterable[str]) -> frozenset[str]:
        """Return none."""
        return frozenset()
