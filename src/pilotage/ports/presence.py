"""The port to the processes of servers on one store: which of them are gone, and whether this one may act."""

from collections.abc import Iterable
from typing import Protocol


class Presence(Protocol):
    """This process under a unique name, and what is known of others by theirs."""

    @property
    def name(self) -> str:
        """The name of this process; empty if it has none, and then nobody can tell that it is gone."""

    @property
    def term(self) -> int | None:
        """The number of this process's lease, which grows after each loss; None while it has none.

        Others may take over its work while it has none. Whoever began an act in one term must not go on with
        it in another.
        """

    def gone(self, names: Iterable[str], /) -> frozenset[str]:
        """Return the processes that have ended, or whose lease is over. Unknown processes are not gone."""


class Unnamed:
    """A process without a name, which knows nothing of others."""

    name = ""
    term: int | None = 0

    def gone(self, _: Iterable[str]) -> frozenset[str]:
        """Return none."""
        return frozenset()
