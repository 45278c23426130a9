"""The port to the processes of servers on one store: which of them are gone, and whether this one may act."""

from collections.abc import Iterable
from typing import Protocol


class Presence(Protocol):
    """This process under a unique name, and which others have ended."""

    @property
    def name(self) -> str:
        """The name of this process; empty if it has none, and then its end cannot be noticed."""

    @property
    def term(self) -> int | None:
        """The number of this process's lease, which grows after each loss; None while it has none.

        Others may take over its work while it has none. An act that began in one term must not continue in
        another.
        """

    def gone(self, names: Iterable[str], /) -> frozenset[str]:
        """Return the processes that have ended or lost their lease. Unknown processes are not gone."""


class Unnamed:
    """A process without a name, which knows nothing of others."""

    name = ""
    term: int | None = 0

    def gone(self, _: Iterable[str]) -> frozenset[str]:
        """Return none."""
        return frozenset()
