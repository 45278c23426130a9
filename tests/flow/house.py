"""A store with a small federation of real directories, and the steps taken one pass at a time."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from pilotage.adapters.catalogues.loader import load as load_catalogue
from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.agent.wire import MatchAnswer
from pilotage.flow.calls.pilots import report
from pilotage.flow.calls.pilots.match import match
from pilotage.flow.calls.work.submit import SubmissionOutcome, submit
from pilotage.flow.outside.secret_keys import FILE as SECRET_KEYS
from pilotage.flow.outside.secret_keys import SecretKeys
from pilotage.flow.outside.workers import Inline
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import take
from pilotage.flow.steps import STEPS, step
from pilotage.model.documents.decision import Committed, Create, Decision
from pilotage.model.documents.world import Report
from pilotage.model.records.federation import (
    ComputingElement,
    Federation,
    LoopConstants,
    Queue,
    Site,
    Storage,
)
from pilotage.model.records.states import JobState
from pilotage.model.records.work import NewPilot, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.ports.catalogue import CataloguePort
from pilotage.ports.computing import Capacity, ComputingElementPort, PilotOrder, PilotStatus, Submitted
from pilotage.store import Store

NOW = 1_800_000_000.0
ALICE = Identity(name="alice", vo="ligo")


def federation(place: Path, **queue: Any) -> Federation:
    """Two sites with a queue each; north is the nucleus and has room for 1000 jobs."""
    for name in ("north", "south"):
        (place / name).mkdir(exist_ok=True)
    element = ComputingElement(kind="fake", max_pilots=3)
    return Federation(
        name="flow",
        sites=(Site(name="north", nucleus=True), Site(name="south")),
        storages=tuple(
            Storage(name=f"{name}-disk", site=name, url=f"file://{place}/{name}", storage_min_free=0)
            for name in ("north", "south")
        ),
        queues=(
            Queue(
                **{
                    "name": "north-queue",
                    "site": "north",
                    "storage": "north-disk",
                    "num_slots": 1000,
                    "computing_element": element,
                    **queue,
                }
            ),
        ),
        loops=LoopConstants(batch=1000),
    )


class Deaf:
    """A computing element that can be made, and takes nothing."""

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        return [Submitted(error="deaf")] * len(orders)

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        return {reference: PilotStatus(state="unknown") for reference in references}

    def cancel(self, references: Collection[str]) -> None:
        """Nothing runs."""

    def capacity(self) -> Capacity:
        return Capacity(slots=None, running=None, waiting=None)


class House:
    """Takes steps at a time of its own."""

    def __init__(self, store: Store, place: Path, name: str = "flow", **queue: Any) -> None:
        self.store, self.place, self.name, self.now = store, place, name, NOW
        self.element: ComputingElementPort | None = None
        self.by_site: dict[str, ComputingElementPort] = {}
        self.catalogues: dict[str, CataloguePort] = {}
        self.runtime = Runtime(
            store,
            STEPS,
            load=lambda declared: (
                self.by_site.get(declared.options.get("site", ""))
                or self.element
                or (Deaf() if declared.kind == "fake" else load(declared))
            ),
            movers=InstalledMovers,
            load_catalogue=lambda declared, federation: (
                self.catalogues.get(declared.name) or load_catalogue(declared, federation)
            ),
            clock=lambda: self.now,
            seeds=lambda: 1,
            workers=Inline(),
            server_url="http://server",
            secret_keys=SecretKeys(place / SECRET_KEYS),
        )
        self.federate(**queue)

    def federate(self, **queue: Any) -> None:
        """Put a federation in force, with changes to its queue."""
        self.store.save_federation(replace(federation(self.place, **queue), name=self.name), "test")

    def submit(
        self, *specs: Mapping[str, Any], owner: Identity = ALICE, whole: bool = False
    ) -> SubmissionOutcome:
        """Submit tasks."""
        tasks = [TaskSpec(**{"name": "t", "scouts": 0, **spec}) for spec in specs]
        return submit(self.runtime, tasks, owner, whole=whole)

    def task(self, owner: Identity = ALICE, **spec: Any) -> int:
        """Submit one task, which must be accepted, and split it."""
        ((_, task),) = self.submit(spec, owner=owner).tasks
        self.take("split")
        return task

    def take(self, name: str) -> int:
        """Passes of a step at the house's time, for as long as it wakes itself."""
        self.runtime.wakeups.is_woken(name)
        changed = take(step(name), self.runtime, self.runtime.begin(1000))
        while self.runtime.wakeups.is_woken(name):
            changed += take(step(name), self.runtime, self.runtime.begin(1000))
        return changed

    def pilot(self, **values: Any) -> int:
        """A pilot in north's queue."""
        base: dict[str, Any] = {"queue": "north-queue", "requirements": "", "kind": "generic", "owner": ALICE}
        size = {"cores": 8, "memory": 0.0, "walltime": 86400.0}
        records = (NewPilot(**base | size | values),)
        decision = Decision(
            step="test", time=self.now, seed=1, changes=(Create(records=records, cause="test"),)
        )
        (made,) = self.store.commit(decision, "test").created[0]
        assert made
        return made

    def match(self, pilot: int, most: int = 100) -> MatchAnswer:
        """What a pilot is handed."""
        return match(self.runtime, pilot, 1000, 0, 86400, most)

    def report(
        self, pilot: int, state: Literal["running", "done", "failed"], jobs: Iterable[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """The same report for several attempts; returns what must stop."""
        pairs = list(jobs)
        reports = [Report(job=job, attempt=attempt, state=state, error="") for job, attempt in pairs]
        return report.report(self.runtime, pilot, pairs, reports)

    def tell(self, pilot: int, *told: Report) -> None:
        """One call of a pilot with its reports."""
        report.report(self.runtime, pilot, [], told)

    def states(self, task: int) -> dict[JobState, int]:
        """A task's jobs by state."""
        found = self.store.queries.task(task)
        assert found is not None
        return {JobState(state): count for state, count in found.jobs.items()}


def attempts(answer: MatchAnswer) -> list[tuple[int, int]]:
    """The attempts that a pilot was handed."""
    return [(order.job, order.attempt) for work in answer.works for order in work.jobs]


def meanwhile(house: House, patch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen after the next decision was made, and before it is committed."""
    commit = house.store.commit

    def later(decision: Decision, actor: str) -> Committed:
        if decision.changes:
            patch.undo()
            happens()
        return commit(decision, actor)

    patch.setattr(house.store, "commit", later)


class FakeElement:
    """A batch system at the port: takes pilots, or does not, and says of them what it is told to."""

    def __init__(self) -> None:
        self.orders: list[PilotOrder] = []
        self.there: dict[str, str] = {}
        self.fault: Exception | None = None
        self.lost: Exception | None = None
        self.refusal = ""
        self.status = PilotStatus(state="waiting")
        self.cancelled: list[str] = []

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        if self.fault:
            raise self.fault
        if self.refusal:
            return [Submitted(error=self.refusal) for _ in orders]
        self.orders += orders
        # A name that is there already is recognised: the pilot is not submitted twice.
        self.there |= {order.name: f"reference-{order.pilot}" for order in orders}
        if self.lost:
            raise self.lost
        return [Submitted(reference=self.there[order.name]) for order in orders]

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        return dict.fromkeys(references, self.status)

    def cancel(self, references: Collection[str]) -> None:
        self.cancelled += references

    def capacity(self) -> Capacity:
        return Capacity()
