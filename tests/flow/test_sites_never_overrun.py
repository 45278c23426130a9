"""Sites are never overrun: an observer of its own counts the jobs at each site at every commit (M5, M8).

It reads the tables of jobs and pilots, and knows nothing of counters, claims or advertisements.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import and_, select
from sqlalchemy.sql import functions

from pilotage.flow.errors import PilotGone
from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.decision import Create, Decision
from pilotage.model.records.advertisements import NewAdvertisement
from pilotage.model.records.federation import ComputingElement, Queue, Site
from pilotage.ports.computing import Capacity, PilotOrder
from pilotage.store import Store
from pilotage.store.jobs.borrowings import borrowings
from pilotage.store.jobs.table import jobs
from pilotage.store.pilots.table import pilots

from .house import FakeElement, House, attempts, federation

_j = jobs.c

NOT_YET_RUN = ("assigned", "activated", "sent", "starting")
NOT_ENDED = (*NOT_YET_RUN, "running", "holding", "transferring")
LIVE = ("created", "submitted", "running")
FORWARDING = {"url": "http://127.0.0.1:9", "token_file": "/nowhere", "storage": "hand"}

_is_borrowed = borrowings.c.job.is_not(None)
_JOBS_BY_QUEUE = (
    select(_j.queue, _j.state, _is_borrowed, functions.count())
    .outerjoin(borrowings, and_(borrowings.c.job == _j.id, borrowings.c.attempt == _j.attempt))
    .where(_j.state.in_(NOT_ENDED))
    .group_by(_j.queue, _j.state, _is_borrowed)
)
_PILOTS_BY_QUEUE = (
    select(pilots.c.queue, pilots.c.state, functions.sum(pilots.c.slots), functions.count())
    .where(pilots.c.state.in_(LIVE))
    .group_by(pilots.c.queue, pilots.c.state)
)

SITES = (
    Site(name="north", nucleus=True, max_jobs=6),
    Site(name="south", max_jobs=5, max_submitting_jobs=3),
    Site(name="beyond", max_jobs=4, max_pending_jobs=3),
    Site(name="dead", max_jobs=4, throttle="current"),
)
QUEUES = {
    "north-1": ("north", "fake", 4),
    "north-2": ("north", "fake", 1),
    "south-1": ("south", "fake", 3),
    "beyond-1": ("beyond", "pilotage", 1),
    "dead-1": ("dead", "fake", 2),
}


class Observer:
    """Counts what is at each site, after every commit; keeps the most that it saw."""

    def __init__(
        self,
        store: Store,
        sites: Sequence[Site] = SITES,
        queues: Mapping[str, tuple[str, str, int]] = QUEUES,
    ) -> None:
        self._store, self._sites, self._queues = store, sites, queues
        self.most: Counter[tuple[str, str]] = Counter()
        self.looks = 0
        store.listeners.append(lambda _decision, _committed: self.look())

    def look(self) -> None:
        counted = self._store.database.read(self._count)
        self.looks += 1
        for site in self._sites:
            there = {name: counted[site.name, name] for name in ("jobs", "submitting", "slots", "waiting")}
            self.check(site, there)
            for name, count in there.items():
                self.most[site.name, name] = max(count, self.most[site.name, name])

    def check(self, site: Site, there: Mapping[str, int]) -> None:
        """Assert that a site is within its limits."""
        limits = {
            "jobs": site.max_jobs,
            "slots": site.max_jobs,
            "submitting": min(_known(site.max_submitting_jobs), _known(site.max_pending_jobs)),
            "waiting": min(_known(site.max_submitting_jobs), _known(site.max_pending_jobs)),
        }
        for name, count in there.items():
            assert count <= _known(limits[name]), f"{site.name} has {there}, its limits are {limits}"

    def _count(self, connection: Any) -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()
        for queue, state, is_borrowed, count in connection.execute(_JOBS_BY_QUEUE):
            site = self._queues[queue][0]
            found[site, "jobs"] += count
            # What was borrowed went straight into a pilot that runs: it was never on its way.
            is_moved = state in ("sent", "starting") and is_borrowed
            found[site, "submitting"] += count if state in NOT_YET_RUN and not is_moved else 0
        for queue, state, slots, count in connection.execute(_PILOTS_BY_QUEUE):
            site = self._queues[queue][0]
            found[site, "slots"] += slots
            found[site, "waiting"] += count if state != "running" else 0
        return found


def _known(limit: int | None) -> int:
    return 10**9 if limit is None else limit


class Counting(FakeElement):
    """A batch system that takes pilots, tells what it has of them, and is dead now and then."""

    def __init__(self, drawn: random.Random) -> None:
        super().__init__()
        self.drawn = drawn

    def capacity(self) -> Capacity:
        if self.drawn.random() < 0.3:
            raise ConnectionError("no answer")
        return Capacity(slots=100, running=0, waiting=0)


class Life:
    """Takes steps, pilots and people in any order, at a time of its own."""

    sites: Sequence[Site] = SITES
    queues: Mapping[str, tuple[str, str, int]] = QUEUES
    acts: Sequence[str] = (
        *("submit", "step", "step", "step", "pilot", "pilot", "report", "report", "push", "cancel", "wait"),
    )

    def __init__(self, house: House, seed: int) -> None:
        self.house = house
        self.drawn = random.Random(seed)
        self.element = house.element = Counting(self.drawn)
        self.tasks: list[int] = []
        self.held: dict[int, list[tuple[int, int]]] = {}
        made = federation_of(house.place, self.sites, self.queues)
        house.store.save_federation(made, "test")

    def act(self) -> None:
        """Do one thing."""
        getattr(self, self.drawn.choice(self.acts))()

    def submit(self) -> None:
        self.submit_jobs(self.drawn.randint(1, 8))

    def submit_jobs(self, size: int) -> None:
        """Submit so many jobs, of either brokerage."""
        chosen = self.drawn.choice(["production", "matchmaking"])
        priority = self.drawn.choice([1, 500, 790])
        # Jobs that are bound late go to whichever pilot asks first.
        bound: dict[str, Any] = {"binding": "late"} if chosen == "production" else {}
        self.tasks.append(self.house.task(jobs=size, brokerage=chosen, priority=priority, **bound))

    def step(self) -> None:
        names = ("broker", "broker", "advertise", "provision", "rebind", "watch", "lift", "stage", "finish")
        self.house.take(self.drawn.choice(names))

    def wait(self) -> None:
        self.house.now += self.drawn.choice([1, 6, 60, 300, 1200])

    def pilot(self) -> None:
        """Let a pilot that was ordered ask for jobs, of its own queue or of others."""
        if self.element.orders:
            self.let_ask(self.drawn.choice(self.element.orders))

    def let_ask(self, order: PilotOrder) -> None:
        """Let the pilot of an order ask for as many jobs as it has free slots."""
        try:
            answer = self.house.match(order.pilot, order.slots - len(self.held.get(order.pilot, [])))
        except PilotGone:
            return
        self.held.setdefault(order.pilot, []).extend(attempts(answer))

    def report(self) -> None:
        """Let a pilot start, end or lose what it has, or end itself."""
        pilot = self.drawn.choice(sorted(self.held)) if self.held else 0
        if not self.held.get(pilot):
            return
        own = self.held[pilot]
        how: Any = self.drawn.choice(["running", "done", "done", "failed"])
        try:
            self.house.report(pilot, "running", own)
            if how != "running":
                self.house.report(pilot, how, own)
        except PilotGone:
            how = "gone"
        if how != "running":
            self.held[pilot] = []

    def push(self) -> None:
        """Let a site tell its own counts, or be read again."""
        site = self.drawn.choice(["north", "south", "beyond"])
        told = {"CurrentJobs": self.drawn.randint(0, 3), "CurrentSubmittingJobs": self.drawn.randint(0, 2)}
        source, attributes = self.drawn.choice([("pushed", told), ("native", {}), ("native", {})])
        record = NewAdvertisement(site=site, source=source, attributes=attributes)  # type: ignore[arg-type]
        change = Create(records=(record,), cause="sent")
        decision = Decision(step="advertise", time=self.house.now, seed=1, changes=(change,))
        self.house.store.commit(decision, f"site:{site}")

    def cancel(self) -> None:
        if self.tasks and self.drawn.random() < 0.3:
            cancel(self.house.runtime, self.drawn.choice(self.tasks), "not wanted", "alice")


def federation_of(place: Path, sites: Sequence[Site], queues: Mapping[str, tuple[str, str, int]]) -> Any:
    """Return a federation of these sites, each with a disk, and of these queues."""
    before = federation(place)
    for site in sites:
        (place / site.name).mkdir(exist_ok=True)
    disk = before.storages[0]
    return replace(
        before,
        sites=tuple(sites),
        storages=tuple(
            replace(disk, name=f"{site.name}-disk", site=site.name, url=f"file://{place}/{site.name}")
            for site in sites
        ),
        queues=tuple(
            Queue(
                name=name,
                site=site,
                storage=f"{site}-disk",
                computing_element=ComputingElement(
                    kind=kind,
                    max_pilots=50,
                    pilot_slots=slots,
                    options=FORWARDING if kind == "pilotage" else {"site": site},
                ),
            )
            for name, (site, kind, slots) in queues.items()
        ),
    )


@pytest.mark.parametrize("seed", range(3))
def test_m5_m8_no_site_is_overrun_whoever_does_what_in_any_order(house: House, seed: int) -> None:
    _lives(house, seed, 400)


@pytest.mark.endurance
@pytest.mark.parametrize("seed", [101])
def test_m5_m8_no_site_is_overrun_in_long_lives(house: House, seed: int) -> None:
    _lives(house, seed, 5000)


def _lives(house: House, seed: int, acts: int) -> None:
    life, observer = Life(house, seed), Observer(house.store)
    for _ in range(acts):
        life.act()
    # It can fail: every site was filled.
    for site in SITES:
        assert observer.most[site.name, "jobs"] >= 3, observer.most
