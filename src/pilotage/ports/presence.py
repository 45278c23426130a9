"""The port to the processes of servers on one store: which of them are gone."""

from collections.abc import Iterable
from typing import Protocol


class Presence(Protocol):
    """This process by a name that no other ever has, and what is known of others by theirs."""

    @property
    def name(self) -> str:
        """The name of this process; empty where it has none, and nobody can tell that it is gone."""

    def gone(self, names: Iterable[str], /) -> frozenset[str]:
        """Return the processes that have certainly ended; nothing is known of those of another machine."""


class Unnamed:
    """A process without a name, which knows nothing of others."""

    name = ""

    def gone(self, _: Iterable[str]) -> frozenset[str]:
        """Tell of none."""
        return frozenset()
