"""The limits of sites under load: real brokerages and directors of many servers, and a witness (M5, M8).

``python -m benchmarks.throttles`` takes minutes, and fails where a site is ever above a limit. Servers place
jobs by both brokerages and make pilots, whose batch systems answer or not; jobs run, end, fail and leave; and
sites advertise anew all the time. The witness reads the tables of jobs and pilots alone.
"""

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, func, select

from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.flow.outside.workers import Inline
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import take
from pilotage.flow.steps import STEPS, step
from pilotage.model.documents.decision import Change, Committed, Decision, Move
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import (
    JOBS_AT_A_SITE,
    LIVE_PILOTS,
    SUBMITTING_JOBS,
    WAITING_PILOTS,
    JobState,
    PilotState,
    State,
)
from pilotage.model.records.work import Requirements, TaskSpec
from pilotage.ports.computing import Capacity, PilotOrder, PilotStatus, Submitted
from pilotage.store import Store
from pilotage.store.jobs.table import jobs
from pilotage.store.pilots.table import pilots
from pilotage.testing import ALICE, NOW, federation, queue
from pilotage.testing.stores import new_jobs, new_task

from . import house

PLACEMENTS, SITES, SERVERS = 100_000, 50, 4
MOST, MOST_SUBMITTING, SLOTS = 40, 15, 3

REQUIREMENTS = Requirements.of(TaskSpec(name="t"), ALICE).text
STEPS_TAKEN = ("broker", "broker", "lift", "watch", "provision", "advertise")
_LIFE = (
    (JobState.RUNNING, JobState.FINISHED),
    (JobState.RUNNING, JobState.FAILED),
    (JobState.STARTING, JobState.RUNNING),
    (JobState.SENT, JobState.STARTING),
    (JobState.ACTIVATED, JobState.SENT),
    (JobState.ACTIVATED, JobState.DEFINED),
)
"""What becomes of jobs, the last of them first."""

_PILOTS = ((PilotState.RUNNING, PilotState.FINISHED), (PilotState.SUBMITTED, PilotState.RUNNING))


def figures(placements: int = PLACEMENTS) -> dict[str, float]:
    """Jobs placed a second. Raises ValueError where a site is above a limit."""
    with (
        tempfile.TemporaryDirectory(prefix="pilotage-bench-") as place,
        house.store("postgresql", Path(place)) as url,
    ):
        store = Store.open(url)
        try:
            return _measured(store, url, placements)
        finally:
            store.close()


def _measured(store: Store, url: str, placements: int) -> dict[str, float]:
    store.save_federation(_federation(), "bench")
    load = _Load(store, placements)
    began = time.perf_counter()
    with ThreadPoolExecutor(SERVERS + 2) as pool:
        others = [pool.submit(load.witness), pool.submit(load.live)]
        work = [pool.submit(load.serve, url, number) for number in range(SERVERS)]
        try:
            for future in work:
                future.result()
        finally:
            load.done.set()
        looks, ended = (other.result() for other in others)
    seconds = time.perf_counter() - began
    return {
        "throttle_placements": float(load.placed),
        "throttle_placements_per_s": load.placed / seconds,
        "throttle_looks": float(looks),
        "throttle_jobs_ended": float(ended),
    }


def _federation() -> Federation:
    names = [f"s{site:02}" for site in range(SITES)]
    made = federation(
        [queue(f"q{at}-{name}", site=name, max_pilots=100, slots=SLOTS) for name in names for at in range(2)],
        constants={"match_period": 1, "advertise_period": 1, "pending_time": 1},
        plugins={"": "production"},
    )
    sites = [replace(site, max_jobs=MOST, max_submitting_jobs=MOST_SUBMITTING) for site in made.sites]
    return replace(made, sites=tuple(sites))


class _Element:
    """A batch system that takes all pilots, and does not answer now and then."""

    def __init__(self, drawn: random.Random) -> None:
        self._drawn = drawn

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        return [Submitted(reference=order.name) for order in orders]

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        return {reference: PilotStatus(state="unknown") for reference in references}

    def cancel(self, references: Collection[str]) -> None:
        """Nothing runs."""

    def capacity(self) -> Capacity:
        if self._drawn.random() < 0.2:
            raise ConnectionError("no answer")
        return Capacity()


class _Load:
    """Servers, the life of jobs and pilots, and the witness; all go on until so many jobs are placed."""

    def __init__(self, store: Store, placements: int) -> None:
        self._store = store
        self._wanted = placements
        self._lock = threading.Lock()
        self._time = NOW
        self.placed = 0
        self.done = threading.Event()
        for brokerage in ("production", "matchmaking"):
            task = new_task(store, brokerage=brokerage)
            for _ in range(0, placements, 5000):
                new_jobs(store, task, 2500, requirements=REQUIREMENTS)

    def _clock(self) -> float:
        # Each look at it is a while later: cycles and advertisements follow each other at once.
        with self._lock:
            self._time += 0.05
            return self._time

    def serve(self, url: str, number: int) -> None:
        """Take steps in any order, as one of several servers."""
        drawn, store = random.Random(number), Store.open(url)
        element = _Element(drawn)
        runtime = Runtime(
            store,
            STEPS,
            load=lambda _: element,
            movers=InstalledMovers,
            clock=self._clock,
            seeds=lambda: drawn.getrandbits(31),
            workers=Inline(),
        )
        store.listeners.append(self._count)
        try:
            while self.placed < self._wanted and not self.done.is_set():
                take(step(drawn.choice(STEPS_TAKEN)), runtime, runtime.begin(1000))
        finally:
            runtime.close()
            store.close()

    def _count(self, decision: Decision, committed: Committed) -> None:
        placed = sum(
            len(accepted)
            for change, accepted in zip(decision.changes, committed.accepted, strict=True)
            if isinstance(change, Move) and change.target in (JobState.ACTIVATED, JobState.ASSIGNED)
        )
        with self._lock:
            self.placed += placed

    def live(self) -> int:
        """Let jobs and pilots go on; returns how many jobs ended."""
        drawn, ended = random.Random(99), 0
        while not self.done.is_set():
            for source, target in _LIFE:
                moved = self._move("job", source, target, drawn)
                ended += moved if target in _ENDS else 0
            for before, after in _PILOTS:
                self._move("pilot", before, after, drawn)
        return ended

    def _move(self, kind: str, source: State, target: State, drawn: random.Random) -> int:
        table = jobs if kind == "job" else pilots
        query = select(table.c.id).where(table.c.state == str(source))
        found = self._store.database.read(lambda connection: connection.execute(query).scalars().all())
        part = tuple(number for number in found if drawn.random() < _SHARE.get(target, 0.7))
        if not part:
            return 0
        changes = {"queue": ""} if target is JobState.DEFINED else {}
        change: Change = Move(
            kind=kind,  # type: ignore[arg-type]
            ids=part,
            source=source,
            target=target,
            cause="goes on",
            changes=changes,
        )
        decision = Decision(step="bench", time=self._clock(), seed=1, changes=(change,))
        return len(self._store.commit(decision, "life").accepted[0])

    def witness(self) -> int:
        """Look at all sites again and again; returns how often. Raises ValueError for one above a limit."""
        looks = 0
        while not self.done.is_set():
            for (site, what), count in self._store.database.read(_counted).items():
                if count > _LIMITS[what]:
                    self.done.set()
                    raise ValueError(f"{site} has {count} {what}, the limit is {_LIMITS[what]}")
            looks += 1
        return looks


_ENDS = (JobState.FINISHED, JobState.FAILED)
_SHARE: Mapping[State, float] = {JobState.FAILED: 0.1, JobState.DEFINED: 0.1}
_LIMITS = {"jobs": MOST, "submitting": MOST_SUBMITTING, "slots": MOST, "waiting pilots": MOST_SUBMITTING}
_JOBS = (
    select(jobs.c.queue, jobs.c.state, func.count())
    .where(jobs.c.state.in_([str(state) for state in JOBS_AT_A_SITE]))
    .group_by(jobs.c.queue, jobs.c.state)
)
_LIVE = (
    select(pilots.c.site, pilots.c.state, func.count(), func.sum(pilots.c.slots))
    .where(pilots.c.state.in_([str(state) for state in LIVE_PILOTS]))
    .group_by(pilots.c.site, pilots.c.state)
)


def _counted(connection: Connection) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for name, state, count in connection.execute(_JOBS):
        site = name.partition("-")[2]
        found[site, "jobs"] += count
        found[site, "submitting"] += count if state in SUBMITTING_JOBS else 0
    for site, state, count, slots in connection.execute(_LIVE):
        found[site, "slots"] += slots
        found[site, "waiting pilots"] += count if state in WAITING_PILOTS else 0
    return found


if __name__ == "__main__":
    print(figures())
