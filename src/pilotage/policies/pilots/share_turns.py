"""The order of global shares for a pilot: first the share furthest below its target (P13)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from pilotage.model.documents.world import JobCount
from pilotage.model.records.federation import GlobalShare
from pilotage.model.records.states import AT_A_PILOT
from pilotage.model.rules import global_shares


class ShareTurns:
    """The use of each global share, counted match by match, and the share that is next.

    Shares are compared like tasks in a cycle (``.global_shares.order``), by jobs that pilots have. An
    undeclared share counts as one without parent and with target 1.
    """

    def __init__(self, shares: Sequence[GlobalShare], counts: Iterable[JobCount]) -> None:
        self._known = {share.name: share for share in shares}
        self._paths: dict[str, list[GlobalShare]] = {}
        self._use: defaultdict[str, int] = defaultdict(int)
        for count in counts:
            if count.state in AT_A_PILOT:
                self.give(count.share, count.jobs)

    @classmethod
    def of(
        cls, shares: Sequence[GlobalShare], counts: Callable[[], Iterable[JobCount]]
    ) -> "ShareTurns | None":
        """Count the jobs at pilots by share. Return None for fewer than two shares: there is no choice."""
        return cls(shares, counts()) if len(shares) > 1 else None

    def give(self, share: str, jobs: int = 1) -> None:
        """Count jobs given to a pilot. A negative number takes them back."""
        for above in self._path(share):
            self._use[above.name] += jobs

    def first(self, shares: Iterable[str]) -> str:
        """Return which of these shares is next."""
        return min(shares, key=self._standing)

    def _standing(self, share: str) -> list[global_shares.ShareStanding]:
        return [global_shares.standing(above, self._use[above.name]) for above in self._path(share)]

    def _path(self, share: str) -> list[GlobalShare]:
        if share not in self._paths:
            names = global_shares.path(share, self._known) if share in self._known else [share]
            self._paths[share] = [self._known.get(name) or GlobalShare(name=name) for name in names]
        return self._paths[share]
