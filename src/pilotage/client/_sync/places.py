# Written by `make docs` from ../_async; do not edit.
"""Requests about the federation's places and what moves between them."""

from collections.abc import Iterable

from pilotage.client.records import Record, Table
from pilotage.client.subjects import RequestSubject

from .api import Api

MOST_PLACES = 10_000
"""Most places of one answer: all that a federation has."""


class Places(Api):
    """Sites, queues, pilots, storages, transfers and circuit breakers."""

    def queues(self, *, after: str | None = None, limit: int = MOST_PLACES) -> Table[Record]:
        """Return queues by name, with their jobs and pilots by state, and their circuit breakers."""
        return self._table("queues", "/queues", after=after, limit=limit)

    def test_queue(self, queue: str) -> Record:
        """Send one pilot to a queue, which tells what its node has. While one is under way, return that."""
        return self._posted("/queues/{queue}/test", {"queue": queue})

    def shares(self) -> Table[Record]:
        """Return every global share, with its jobs and transfers by state."""
        return self._table("shares", "/shares")

    def share_history(self, *, days: int = 7) -> Table[Record]:
        """Return what each share used of the running jobs over some days, next to its target."""
        return self._table("shares", "/shares/history", days=days)

    def sites(self, *, after: str | None = None, limit: int = MOST_PLACES) -> Table[Record]:
        """Return sites with a queue by name, with their last advertisements."""
        return self._table("sites", "/sites", after=after, limit=limit)

    def advertisement(self, site: str) -> Record:
        """Return the ClassAd of a site as it is matched now, as ``ad``."""
        return self._record("/sites/{site}/ad", {"site": site})

    def advertise(self, site: str, advertisement: str) -> None:
        """Advertise a site, with its own token, for three periods."""
        self._connection.send("PUT", "/sites/{site}/ad", {"site": site}, body={"ad": advertisement})

    def withdraw_advertisement(self, site: str) -> None:
        """Forget a site's own advertisement. Its batch systems' reports take its place again."""
        self._connection.send("DELETE", "/sites/{site}/ad", {"site": site})

    def pilots(
        self,
        *,
        state: str | None = None,
        queue: str | None = None,
        empty: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> Table[Record]:
        """Return pilots, newest first. ``empty`` ones never had a job."""
        return self._table(
            "pilots", "/pilots", state=state, queue=queue, empty=empty, after=after, limit=limit
        )

    def pilot_waits(self, *, after: float = 0, limit: int = 100) -> Record:
        """Return ``waits`` of the newest pilots that called home, recorded after a time in s since 1970."""
        return self._record("/pilots/waits", after=after, limit=limit)

    def pilot(self, pilot: int | str | RequestSubject) -> Record:
        """Return one pilot."""
        found = RequestSubject("pilot", pilot) if isinstance(pilot, int) else self.subject(pilot)
        return self._record("/pilots/{pilot}", found.of_kinds("pilot").values)

    def transfers(
        self, *, state: str | None = None, after: str | None = None, limit: int = 100
    ) -> Table[Record]:
        """Return transfers, newest first."""
        return self._table("transfers", "/transfers", state=state, after=after, limit=limit)

    def transfer_progress(self) -> Record:
        """Return transfers by state, and the progress of those in delivery. Two answers give a rate."""
        return self._record("/transfers/progress")

    def prioritise_transfers(self, priorities: Iterable[tuple[int, int]]) -> Record:
        """Change the priorities of transfers, given as (transfer, priority)."""
        body = {"priorities": [{"id": one, "priority": priority} for one, priority in priorities]}
        return self._posted("/transfers/priorities", None, body)

    def storages(self, *, after: str | None = None, limit: int = MOST_PLACES) -> Table[Record]:
        """Return storages by name, with their free space and the circuit breakers that concern them."""
        return self._table("storages", "/storages", after=after, limit=limit)

    def move_storage(
        self,
        old: str,
        new: str,
        *,
        after: str = "",
        same_place: bool = False,
        again: bool = False,
        dry_run: bool = False,
    ) -> Record:
        """Move a page of a drained storage's files to another one; go on ``after`` its ``next``.

        Raises ``Conflict`` if it cannot work. ``same_place``: both are names of one place.
        """
        body = {"to": new, "after": after, "same_place": same_place, "again": again, "dry_run": dry_run}
        return self._posted("/storages/{storage}/move", {"storage": old}, body)

    def restrictions(self, *, after: str | None = None, limit: int = MOST_PLACES) -> Table[Record]:
        """Return the sites, queues and storages that operators drain or closed, and their remaining work."""
        return self._table("restrictions", "/restrictions", after=after, limit=limit)

    def drain(self, kind: str, name: str, *, because: str, until: float | None = None) -> Record:
        """Drain a site, queue or storage, until a time in s since 1970 UTC, or until it is opened."""
        return self._restrict(kind, name, {"mode": "drain", "because": because, "until": until})

    def close_place(self, kind: str, name: str, *, because: str, until: float | None = None) -> Record:
        """Close a site, queue or storage, until a time in s since 1970 UTC, or until it is opened."""
        return self._restrict(kind, name, {"mode": "close", "because": because, "until": until})

    def open_place(self, kind: str, name: str) -> Record:
        """Open a site, queue or storage.

        Return whether it was drained or closed before (``opened``), and what ``still`` keeps it shut.
        """
        place = {"kind": kind, "name": name}
        return self._sent("DELETE", "/restrictions/{kind}/{name}", place, needs=["opened"])

    def _restrict(self, kind: str, name: str, body: dict[str, object]) -> Record:
        place = {"kind": kind, "name": name}
        return self._sent("PUT", "/restrictions/{kind}/{name}", place, body=body)

    def breakers(self, *, after: str | None = None, limit: int = MOST_PLACES) -> Table[Record]:
        """Return circuit breakers that are open or half-open; on the first page also records set aside."""
        return self._table("breakers", "/breakers", after=after, limit=limit)

    def lift_breakers(self, name: str, *, kind: str | None = None) -> Record:
        """Close every breaker of a name: what failed there until now counts no more."""
        return self._posted("/breakers/lift", None, {"name": name, "kind": kind})
