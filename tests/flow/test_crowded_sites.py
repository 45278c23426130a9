"""Sites that other people use, too, are never overrun, however slow, late or dead batch systems are (M2, M5).

The observer counts our jobs and pilots in their tables, and other people's jobs as the batch system itself
last told them. It knows nothing of counters and claims.
"""

import os
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from sqlalchemy import select

from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.records.advertisements import NewAdvertisement
from pilotage.model.records.federation import Site
from pilotage.model.records.states import JobState
from pilotage.model.records.work import NewPilot
from pilotage.ports.computing import Capacity, PilotStatus
from pilotage.store import Store
from pilotage.store.pilots.table import pilots

from .house import FakeElement, House
from .test_sites_never_overrun import Life, Observer

LIMITS: Mapping[str, Mapping[str, Any]] = {
    "north": {"max_jobs": 60},
    "south": {"max_jobs": 50, "max_submitting_jobs": 20},
    "beyond": {"max_jobs": 40, "max_pending_jobs": 15},
    "dead": {"max_jobs": 30},
}
QUEUES = {
    "north-1": ("north", 4),
    "north-2": ("north", 1),
    "south-1": ("south", 3),
    "beyond-1": ("beyond", 2),
    "dead-1": ("dead", 2),
}

LONGEST_WAIT = 6 * 3600.0
"""Seconds after which a waiting pilot is cancelled at its site, and holds no room (P4)."""


class Crowd(FakeElement):
    """The batch system of a site: our pilots and other people's jobs. It answers, late or not at all."""

    def __init__(self, life: "CrowdedLife", site: str) -> None:
        super().__init__()
        self.life, self.site = life, site
        self.others = (0, 0)
        self.told: tuple[int, int] | None = None
        self.mood = "well"

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        return {reference: PilotStatus(state=self._state(reference)) for reference in references}

    def _state(self, reference: str) -> Any:
        if reference in self.cancelled or reference not in self.there.values():
            return "ended"
        return "running" if int(reference.removeprefix("reference-")) in self.life.held else "waiting"

    def capacity(self) -> Capacity:
        if self.mood == "dead":
            raise ConnectionError("no answer")
        states = Counter(self._state(reference) for reference in self.there.values())
        others = self.others
        if self.mood == "slow":
            # Meanwhile everything else goes on: pilots are submitted, jobs are placed, others come.
            self.life.go_on()
        self.told = others
        running, waiting = others
        return Capacity(
            slots=10_000,
            running=running + states["running"],
            waiting=waiting + states["waiting"],
            everybody=True,
            scope=self.site,
        )


class CrowdedLife(Life):
    """Other people come and go at every site, and its batch system is slow or dead now and then."""

    acts = (
        *("submit", "step", "step", "step", "step", "pilot", "pilot", "pilot", "report", "report", "report"),
        *("others", "mood", "cancel", "wait", "wait"),
    )

    def __init__(self, house: House, seed: int, scale: int) -> None:
        self.scale, self.depth = scale, 0
        self.sites = tuple(
            Site(
                name=name,
                nucleus=name == "north",
                throttle="current" if name == "dead" else "matches",
                **{limit: scale * most for limit, most in limits.items()},
            )
            for name, limits in LIMITS.items()
        )
        self.queues = {name: (site, "fake", scale * slots) for name, (site, slots) in QUEUES.items()}
        super().__init__(house, seed)
        self.crowds = {name: Crowd(self, name) for name in LIMITS}
        house.by_site.update(self.crowds)

    def go_on(self) -> None:
        """Do a few things while a batch system counts."""
        if self.depth == 0:
            self.depth = 1
            for _ in range(4):
                self.act()
            self.depth = 0

    def submit(self) -> None:
        self.submit_jobs(self.drawn.randint(1, 60 * self.scale))

    def others(self) -> None:
        """Let other people's jobs begin, end or wait anew."""
        site = self.drawn.choice(self.sites)
        most = site.max_jobs or 0
        running = self.drawn.randint(0, most // 2)
        self.crowds[site.name].others = running, self.drawn.randint(0, most // 4)

    def mood(self) -> None:
        self.drawn.choice([*self.crowds.values()]).mood = self.drawn.choice(["well", "well", "slow", "dead"])

    def pilot(self) -> None:
        """Let a pilot that was ordered anywhere ask for jobs."""
        orders = [order for crowd in self.crowds.values() for order in crowd.orders[-40:]]
        if orders:
            self.let_ask(self.drawn.choice(orders))


class CrowdObserver(Observer):
    """Counts other people's jobs beside ours, whenever ours become more."""

    def __init__(self, store: Store, life: CrowdedLife) -> None:
        self.life, self.placements = life, 0
        self.others: dict[str, tuple[int, int]] = {}
        self.before: Counter[tuple[str, str]] = Counter()
        self.makes_pilots = False
        store.listeners.append(self.follow)
        super().__init__(store, life.sites, life.queues)

    def follow(self, decision: Decision, committed: Committed) -> None:
        """Take over what a batch system told, once that is an advertisement, and count placements."""
        for change, ids in zip(decision.changes, committed.accepted, strict=True):
            if isinstance(change, Move) and change.kind == "job" and change.source is JobState.DEFINED:
                placed = change.target in (JobState.ACTIVATED, JobState.ASSIGNED)
                self.placements += len(ids) if placed else 0
        records = [record for change in decision.changes for record in getattr(change, "records", ())]
        self.makes_pilots = any(isinstance(record, NewPilot) for record in records)
        for record in records:
            if isinstance(record, NewAdvertisement) and (told := self.life.crowds[record.site].told):
                self.others[record.site] = told

    def _count(self, connection: Any) -> Counter[tuple[str, str]]:
        found = super()._count(connection)
        late = select(pilots.c.queue, pilots.c.slots).where(
            pilots.c.state.in_(("created", "submitted")),
            pilots.c.created < self.life.house.now - LONGEST_WAIT,
        )
        for queue, slots in connection.execute(late):
            site = self.life.queues[queue][0]
            found[site, "slots"] -= slots
            found[site, "waiting"] -= 1
        return found

    def check(self, site: Site, there: Mapping[str, int]) -> None:
        running, waiting = self.others.get(site.name, (10**9, 10**9))
        more = {name: count > self.before[site.name, name] for name, count in there.items()}
        # A pilot that calls after it was given up is no new one.
        more |= {name: more[name] and self.makes_pilots for name in ("slots", "waiting")}
        for name, most in (("jobs", site.max_jobs), ("slots", site.max_jobs)):
            excess = more[name] and there[name] + running + waiting > (10**9 if most is None else most)
            assert not excess, f"{site.name}: {there} beside {running} and {waiting}"
        limits = [most for most in (site.max_submitting_jobs, site.max_pending_jobs) if most is not None]
        for name in ("submitting", "waiting") if limits else ():
            assert not (more[name] and there[name] + waiting > min(limits)), (
                f"{site.name}: {there}, {waiting}"
            )
        self.before.update(
            {(site.name, name): count - self.before[site.name, name] for name, count in there.items()}
        )


def _lives(house: House, seed: int, placements: int, scale: int = 1) -> None:
    life = CrowdedLife(house, seed, scale)
    observer = CrowdObserver(house.store, life)
    while observer.placements < placements:
        life.act()
    for site in life.sites:
        assert observer.most[site.name, "jobs"] >= 5, observer.most


@pytest.mark.parametrize("seed", [1, 2])
def test_m5_no_site_is_overrun_beside_other_people(house: House, seed: int) -> None:
    _lives(house, seed, 150)


@pytest.mark.endurance
def test_m5_no_large_site_is_overrun_beside_other_people(house: House) -> None:
    """Set PLACEMENTS to 10000 for some minutes of it, and SEED for another life."""
    _lives(house, int(os.environ.get("SEED", "7")), int(os.environ.get("PLACEMENTS", "1000")), scale=20)
