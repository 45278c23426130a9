"""The throttle's promise under load: every route at once, sites that advertise anew, a witness (M5, M8).

``python -m benchmarks.throttles`` takes minutes, and fails where a site is ever above a limit. Jobs claim
what either brokerage claims for them: matches since the site's advertisement, up to its throttle.
"""

import random
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from pilotage.brokerage.matchmaking.site_ads import SiteAd, site_ads
from pilotage.model.advertisements import NewAdvertisement
from pilotage.model.counters import MATCHES_BY_SITE, PILOTS_BY_SITE
from pilotage.model.decision import Change, Claim, Committed, Create, Decision, Move
from pilotage.model.federation import Federation
from pilotage.model.states import LIVE_PILOTS, WAITING_PILOTS, JobState, PilotState
from pilotage.model.work import NewPilot
from pilotage.store import Store
from pilotage.testing import ALICE, NOW, federation, queue
from pilotage.testing.stores import new_jobs, new_task

from . import house

PLACEMENTS, SITES, CLIENTS = 100_000, 50, 8
MOST, MOST_SUBMITTING = 40, 15


def figures(placements: int = PLACEMENTS) -> dict[str, float]:
    """Jobs matched and pilots made a second. Raises ValueError where a site is above a limit."""
    with (
        tempfile.TemporaryDirectory(prefix="pilotage-bench-") as place,
        house.store("postgresql", Path(place)) as url,
    ):
        store = Store.open(url)
        try:
            return _measured(store, placements)
        finally:
            store.close()


def _measured(store: Store, placements: int) -> dict[str, float]:
    store.save_federation(_federation(), "bench")
    jobs = _jobs(store, placements)
    each = placements // CLIENTS
    clients = [_Client(store, number, jobs[number::CLIENTS], each) for number in range(CLIENTS)]
    clients[0].advertise([f"s{site:02}" for site in range(SITES)])
    done = threading.Event()
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS + 1) as pool:
        witness = pool.submit(_witness, store, done)
        work = [pool.submit(client.run) for client in clients]
        try:
            made = sum(future.result() for future in work)
        finally:
            done.set()
        looked = witness.result()
    seconds = time.perf_counter() - began
    return {
        "throttle_placements": float(made),
        "throttle_placements_per_s": made / seconds,
        "throttle_looks": float(looked),
    }


def _federation() -> Federation:
    made = federation([queue(f"q{site:02}", site=f"s{site:02}") for site in range(SITES)])
    sites = [replace(site, max_jobs=MOST, max_submitting_jobs=MOST_SUBMITTING) for site in made.sites]
    return replace(made, sites=tuple(sites))


def _jobs(store: Store, count: int) -> list[int]:
    task = new_task(store)
    return [id_ for _ in range(0, count, 5000) for id_ in new_jobs(store, task, 5000)]


def _witness(store: Store, done: threading.Event) -> int:
    """Look at all sites again and again; returns how often. Raises ValueError for one above a limit."""
    looks = 0
    while not done.is_set():
        for told in store.snapshots.for_sites(NOW, 1).advertisements:
            if told.current_jobs + told.handed > MOST or told.live_pilots > MOST:
                raise ValueError(f"{told} is above {MOST} jobs")
            if told.matched + told.current_submitting_jobs > max(
                MOST_SUBMITTING, told.current_submitting_jobs
            ):
                raise ValueError(f"{told} is above {MOST_SUBMITTING} submitting jobs")
        looks += 1
    return looks


@dataclass
class _Client:
    """One of the clients: matches jobs, makes pilots, lets them run and end, and advertises, at random."""

    store: Store
    number: int
    jobs: list[int]
    wanted: int
    placed: int = 0
    pilots: dict[PilotState, list[int]] = field(default_factory=lambda: defaultdict(list))

    def run(self) -> int:
        """Go on until so many jobs and pilots are placed, or no job is left; returns how many were."""
        drawn = random.Random(self.number)
        while self.jobs and self.placed < self.wanted:
            ads = site_ads(self.store.snapshots.for_sites(NOW, 1))
            chosen = drawn.sample([ad for ad in ads if ad.advertisement], 16)
            if drawn.random() < 0.7:
                self._match([(ad, drawn.randint(1, 15)) for ad in chosen])
            else:
                self._make([(ad, drawn.randint(1, 15)) for ad in chosen])
            self._advance(drawn)
            self.advertise([ad.name for ad in drawn.sample(chosen, 8)])
        return self.placed

    def advertise(self, sites: Sequence[str]) -> None:
        """Let sites advertise."""
        records = tuple(NewAdvertisement(site=site, source="native") for site in sites)
        self._commit(Create(records=records, cause="a period has passed"))

    def _match(self, wanted: Sequence[tuple[SiteAd, int]]) -> None:
        moves = []
        for ad, count in wanted:
            ids, self.jobs = tuple(self.jobs[:count]), self.jobs[count:]
            if ids and ad.advertisement is not None and ad.limit is not None:
                moves.append(_matched(ad.name, ad.advertisement.number, ids, ad.limit))
        for move, taken in zip(moves, self._commit(*moves).accepted, strict=True):
            self.placed += len(taken)
            self.jobs += sorted(set(move.ids) - set(taken))

    def _make(self, wanted: Sequence[tuple[SiteAd, int]]) -> None:
        creates = [
            Create(records=(_pilot(ad.name),) * count, cause="jobs wait", claims=_room(ad.name))
            for ad, count in wanted
        ]
        for created in self._commit(*creates).created:
            made = [id_ for id_ in created if id_ is not None]
            self.placed += len(made)
            self.pilots[PilotState.CREATED] += made

    def _advance(self, drawn: random.Random) -> None:
        for source, target in _LIFE:
            own = self.pilots[source]
            ids = tuple(own.pop() for _ in range(drawn.randint(0, len(own))))
            if ids:
                self._commit(Move(kind="pilot", ids=ids, source=source, target=target, cause="goes on"))
                self.pilots[target] += ids

    def _commit(self, *changes: Change) -> Committed:
        decision = Decision(step="bench", time=NOW, seed=1, changes=changes)
        return self.store.commit(decision, f"client:{self.number}")


_LIFE = (
    (PilotState.RUNNING, PilotState.FINISHED),
    (PilotState.SUBMITTED, PilotState.RUNNING),
    (PilotState.CREATED, PilotState.SUBMITTED),
)


def _matched(site: str, number: int, ids: tuple[int, ...], limit: int) -> Move:
    return Move(
        kind="job",
        ids=ids,
        source=JobState.DEFINED,
        target=JobState.ACTIVATED,
        cause="matched (M4)",
        changes={"queue": f"q{site[1:]}"},
        claims=(Claim(counter=MATCHES_BY_SITE, key=(site, number), states=(), limit=limit),),
    )


def _room(site: str) -> tuple[Claim, ...]:
    limits = (LIVE_PILOTS, MOST), (WAITING_PILOTS, MOST_SUBMITTING)
    return tuple(
        Claim(counter=PILOTS_BY_SITE, key=(site,), states=states, limit=limit) for states, limit in limits
    )


def _pilot(site: str) -> NewPilot:
    return NewPilot(
        queue=f"q{site[1:]}",
        requirements="r",
        kind="generic",
        owner=ALICE,
        cores=1,
        memory=0,
        walltime=3600,
        site=site,
    )


if __name__ == "__main__":
    print(figures())
