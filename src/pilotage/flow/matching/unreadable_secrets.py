"""Whose secrets this server cannot decrypt, cached for some seconds."""

from collections.abc import Callable, Collection

from pilotage.model.values.freshness import is_fresh
from pilotage.store import Store


class UnreadableSecrets:
    """Compares the keys that encrypted the stored secrets with this server's, by their digests.

    Safe to use from many threads: at worst several of them read the same.
    """

    def __init__(self, store: Store, digests: Callable[[], Collection[str]]) -> None:
        self._store, self._digests = store, digests
        self._read_at: float | None = None
        self._owners: frozenset[tuple[str, str]] = frozenset()

    def owners(self, time: float) -> frozenset[tuple[str, str]]:
        """Return people, by VO and name, of whom a secret is encrypted with a key that this server lacks."""
        if not is_fresh(self._read_at, time):
            self._owners = self._store.secrets.owners_beyond(self._digests())
            self._read_at = time
        return self._owners

    def forget(self) -> None:
        """Read again at the next question: a secret turned out to be unreadable."""
        self._read_at = None
