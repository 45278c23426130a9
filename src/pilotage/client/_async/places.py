"""Requests about the federation's places and what moves between them."""

from collections.abc import Iterable

from pilotage.client.records import Record, Table
from pilotage.client.shapes import (
    BREAKER,
    MOVE,
    PILOT,
    PROGRESS,
    QUEUE,
    RESTRICTION,
    SHARE,
    SHARE_TREND,
    SITE,
    STORAGE,
    TRANSFER,
)
from pilotage.client.subjects import RequestSubject

from .api import AsyncApi

MOST_PLACES = 10_000
"""Most places of one answer: all that a federation has."""


class AsyncPlaces(AsyncApi):
    """Sites, queues, pilots, storages, transfers and circuit breakers."""

    async def queues(self, *, after: str | None = None, limit: int = MOST_PLACES) -> Table[Record]:
        """Return queues by name, with their jobs and pilots by state, and their circuit breakers."""
        return await self._table("queues", "/queues", QUEUE, after=after, limit=limit)

    async def test_queue(self, queue: str) -> Record:
        """Send one pilot to a queue to describe its node. While one is under way, return it."""
        return await self._posted("/queues/{queue}/test", {"pilot": int}, {"queue": queue})

    async def shares(self) -> Table[Record]:
        """Return every global share, with its jobs and transfers by state."""
        return await self._table("shares", "/shares", SHARE)

    async def share_history(self, *, days: int = 7) -> Table[Record]:
        """Return what each share used of the running jobs over some days, next to its target."""
        return await self._table("shares", "/shares/history", SHARE_TREND, days=days)

    async def sites(self, *, after: str | None = None, limit: int = MOST_PLACES) -> Table[Record]:
        """Return sites with a queue by name, with their last advertisements."""
        return await self._table("sites", "/sites", SITE, after=after, limit=limit)

    async def advertisement(self, site: str) -> Record:
        """Return the ClassAd of a site as it is matched now, as ``ad``."""
        return await self._record("/sites/{site}/ad", {"ad": str}, {"site": site})

    async def advertise(self, site: str, advertisement: str) -> None:
        """Advertise a site, with its own token, for three periods."""
        await self._connection.send("PUT", "/sites/{site}/ad", {"site": site}, body={"ad": advertisement})

    async def withdraw_advertisement(self, site: str) -> None:
        """Forget a site's own advertisement. Its batch systems' reports take its place again."""
        await self._connection.send("DELETE", "/sites/{site}/ad", {"site": site})

    async def pilots(
        self,
        *,
        state: str | None = None,
        queue: str | None = None,
        empty: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> Table[Record]:
        """Return pilots, newest first. ``empty`` ones never had a job."""
        return await self._table(
            "pilots", "/pilots", PILOT, state=state, queue=queue, empty=empty, after=after, limit=limit
        )

    async def pilot_waits(self, *, after: float = 0, limit: int = 100) -> Record:
        """Return ``waits`` of the newest pilots that called home, recorded after a time in s since 1970."""
        return await self._record("/pilots/waits", {"waits": {str: [float]}}, after=after, limit=limit)

    async def pilot(self, pilot: int | str | RequestSubject) -> Record:
        """Return one pilot."""
        subject = RequestSubject("pilot", pilot) if isinstance(pilot, int) else await self.subject(pilot)
        return await self._record("/pilots/{pilot}", PILOT, subject.of_kinds("pilot").values)

    async def transfers(
        self, *, state: str | None = None, after: str | None = None, limit: int = 100
    ) -> Table[Record]:
        """Return transfers, newest first."""
        return await self._table("transfers", "/transfers", TRANSFER, state=state, after=after, limit=limit)

    async def transfer_progress(self) -> Record:
        """Return transfers by state, and the progress of those in delivery. Two answers give a rate."""
        return await self._record("/transfers/progress", PROGRESS)

    async def prioritise_transfers(self, priorities: Iterable[tuple[int, int]]) -> Record:
        """Change the priorities of transfers, given as (transfer, priority)."""
        body = {"priorities": [{"id": transfer, "priority": priority} for transfer, priority in priorities]}
        return await self._posted("/transfers/priorities", {"changed": [int]}, None, body)

    async def storages(self, *, after: str | None = None, limit: int = MOST_PLACES) -> Table[Record]:
        """Return storages by name, with their free space and the circuit breakers that concern them."""
        return await self._table("storages", "/storages", STORAGE, after=after, limit=limit)

    async def move_storage(
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
        return await self._posted("/storages/{storage}/move", MOVE, {"storage": old}, body)

    async def restrictions(self, *, after: str | None = None, limit: int = MOST_PLACES) -> Table[Record]:
        """Return the sites, queues and storages that operators drain or closed, and their remaining work."""
        return await self._table("restrictions", "/restrictions", RESTRICTION, after=after, limit=limit)

    async def drain(self, kind: str, name: str, *, because: str, until: float | None = None) -> Record:
        """Drain a site, queue or storage, until a time in s since 1970 UTC, or until it is opened."""
        return await self._restrict(kind, name, {"mode": "drain", "because": because, "until": until})

    async def close_place(self, kind: str, name: str, *, because: str, until: float | None = None) -> Record:
        """Close a site, queue or storage, until a time in s since 1970 UTC, or until it is opened."""
        return await self._restrict(kind, name, {"mode": "close", "because": because, "until": until})

    async def open_place(self, kind: str, name: str) -> Record:
        """Open a site, queue or storage.

        Return whether it was drained or closed before (``opened``), and what ``still`` keeps it shut.
        """
        place = {"kind": kind, "name": name}
        return await self._sent(
            "DELETE", "/restrictions/{kind}/{name}", {"opened": bool, "still": str}, place, needs=["opened"]
        )

    async def _restrict(self, kind: str, name: str, body: dict[str, object]) -> Record:
        place = {"kind": kind, "name": name}
        return await self._sent("PUT", "/restrictions/{kind}/{name}", RESTRICTION, place, body=body)

    async def breakers(self, *, after: str | None = None, limit: int = MOST_PLACES) -> Table[Record]:
        """Return circuit breakers that are open or half-open; on the first page also records set aside."""
        return await self._table("breakers", "/breakers", BREAKER, after=after, limit=limit)

    async def lift_breakers(self, name: str, *, kind: str | None = None) -> Record:
        """Close every breaker of a name: earlier failures there do not count."""
        return await self._posted("/breakers/lift", {"lifted": [BREAKER]}, None, {"name": name, "kind": kind})
