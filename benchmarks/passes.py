"""Passes over much that waits: a director of 10,000 task queues or pilots, staging of 100,000 transfers."""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pilotage.model.documents.decision import Create, Creation, Decision, Move, Value
from pilotage.model.records.federation import (
    ComputingElement,
    DirectorConstants,
    Federation,
    Queue,
    Site,
    Storage,
)
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.work import File, NewJob, NewPilot, NewTask, NewTransfer, Requirements, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.policies.pilots import director, submissions
from pilotage.policies.staging import preparing
from pilotage.store import Store

from . import house

TASK_QUEUES, QUEUES = 10_000, 500
TRANSFERS, SHARES = 100_000, 1_000
PILOTS, SITES = 10_000, 20
ROUNDS = 3
OWNER = Identity(name="bench", vo="bench")


def figures() -> dict[str, float]:
    """The best of some rounds of each pass, with the database's name."""
    ways = {
        "director_10k_s": director_seconds,
        "director_10k_pilots_s": director_seconds_under_way,
        "staging_pass_100k_s": staging_seconds,
    }
    databases: tuple[house.Database, ...] = ("sqlite", "postgresql")
    return {f"{name}_{one}": _measured(one, way) for one in databases for name, way in ways.items()}


def _measured(database: house.Database, measure: Callable[[Store], float]) -> float:
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    try:
        with house.store(database, place) as url:
            store = Store.open(url)
            try:
                store.save_federation(_federation(), "bench")
                return measure(store)
            finally:
                store.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def director_seconds(store: Store) -> float:
    """Snapshot, policy and commit over all task queues, one job each; pilots of earlier rounds are there."""
    _activated(store, TASK_QUEUES, QUEUES)

    def once() -> None:
        world = house.world_of(store, "provision", 5000)
        if len(world.task_queues) != TASK_QUEUES:
            raise RuntimeError(f"{len(world.task_queues)} task queues: this figure would mean nothing")
        store.commit(director.provision(world), "bench")

    return _best(once)


def director_seconds_under_way(store: Store) -> float:
    """The same with 10 task queues at each of 20 sites, where 10,000 pilots are, half of them running."""
    _activated(store, 10 * SITES, SITES)
    asked = Requirements.of(TaskSpec(name="t", ram=1), OWNER).text
    for number in range(SITES):
        pilot = NewPilot(
            queue=f"q{number:03}", requirements=asked, kind="generic", owner=OWNER, cores=1, memory=0,
            walltime=86_400, site="s", element="process",
        )  # fmt: skip
        ids = _made(store, *[pilot] * (PILOTS // SITES))
        _moved(store, "pilot", ids, PilotState.CREATED, PilotState.SUBMITTED)
        _moved(store, "pilot", ids[::2], PilotState.SUBMITTED, PilotState.RUNNING)

    def once() -> None:
        world = house.world_of(store, "provision", 5000)
        if len(world.pilots) < PILOTS:
            raise RuntimeError(f"{len(world.pilots)} pilots: this figure would mean nothing")
        store.commit(submissions.observed(world), "bench")
        store.commit(director.provision(world), "bench")

    return _best(once)


def staging_seconds(store: Store) -> float:
    """Snapshot and policy over all queued transfers."""
    files = [File(name=f"f{number}", size=1, checksum="") for number in range(TRANSFERS)]
    _made(store, *files)
    _made(
        store,
        *(
            NewTransfer(
                file=file.name,
                source="disk-0",
                destination="disk-1",
                direction="download",
                share=f"share-{number % SHARES:04}",
                priority=1 + number // SHARES % 100,
            )
            for number, file in enumerate(files)
        ),
    )

    def once() -> None:
        world = house.world_of(store, "stage", 5000)
        if not preparing.prepare(world).moves:
            raise RuntimeError("nothing starts: this figure would mean nothing")

    return _best(once)


def _best(once: Callable[[], None]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def _activated(store: Store, task_queues: int, queues: int) -> None:
    """A job in each of so many task queues, spread over the first queues."""
    (task,) = _made(store, NewTask(spec=TaskSpec(name="t"), owner=OWNER))
    asked = [Requirements.of(TaskSpec(name="t", ram=n // queues + 1), OWNER).text for n in range(task_queues)]
    jobs = [
        NewJob(task=task, kind="normal", share="default", priority=500, requirements=text) for text in asked
    ]
    ids = _made(store, *jobs)
    for number in range(queues):
        own = ids[number::queues]
        _moved(store, "job", own, JobState.DEFINED, JobState.ACTIVATED, queue=f"q{number:03}")


def _moved(
    store: Store,
    kind: Literal["job", "pilot"],
    ids: list[int],
    source: JobState | PilotState,
    target: JobState | PilotState,
    **changes: Value,
) -> None:
    move = Move(kind=kind, ids=tuple(ids), source=source, target=target, cause="b", changes=changes)
    store.commit(Decision(step="b", time=time.time(), seed=1, changes=(move,)), "bench")


def _made(store: Store, *records: Creation) -> list[int]:
    change = Create(records=records, cause="b")
    committed = store.commit(Decision(step="b", time=time.time(), seed=1, changes=(change,)), "bench")
    return [id_ for id_ in committed.created[0] if id_ is not None]


def _federation() -> Federation:
    element = ComputingElement(max_pilots=1000)
    return Federation(
        name="passes",
        director=DirectorConstants(period=1e-6),
        sites=(Site(name="s", nucleus=True),),
        storages=tuple(Storage(name=f"disk-{n}", site="s", url=f"file:///disk-{n}") for n in range(2)),
        queues=tuple(
            Queue(name=f"q{n:03}", site="s", storage="disk-0", computing_element=element)
            for n in range(QUEUES)
        ),
    )
