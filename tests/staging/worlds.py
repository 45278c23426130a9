"""Small worlds to decide on: three sites, of which ``north`` is the nucleus."""

from collections.abc import Iterable, Mapping
from typing import Any

from pilotage.model.federation import Federation, Link, Queue, Site, StagingConstants, Storage
from pilotage.model.identity import Identity
from pilotage.model.states import JobState, TaskState, TransferState
from pilotage.model.work import File, Job, Replica, Task, TaskSpec, Transfer
from pilotage.model.world import World

NOW = 1_000_000.0
ALICE = Identity(name="alice", vo="atlas", group="higgs", vo_role="validation")


def federation(links: Iterable[Link] = (), storages: Iterable[Storage] = (), **constants: Any) -> Federation:
    """Sites north (nucleus, storages north-a and north-b), east and west, a queue each."""
    return Federation(
        name="three",
        sites=(Site(name="north", nucleus=True), Site(name="east"), Site(name="west")),
        storages=tuple(storages)
        or (
            Storage(name="north-b", site="north", url="memory://north-b"),
            Storage(name="north-a", site="north", url="memory://north-a"),
            Storage(name="east", site="east", url="memory://east"),
            Storage(name="west", site="west", url="memory://west"),
        ),
        queues=(
            Queue(name="QN", site="north", storage="north-b"),
            Queue(name="QE", site="east", storage="east"),
            Queue(name="QW", site="west", storage="west"),
        ),
        links=tuple(links),
        staging=StagingConstants(**constants),
    )


def world(fed: Federation | None = None, time: float = NOW, **records: Iterable[Any]) -> World:
    """A world of these records."""
    parts: Mapping[str, tuple[Any, ...]] = {name: tuple(values) for name, values in records.items()}
    return World(time=time, seed=7, federation=fed or federation(), **parts)


def task(number: int = 1, owner: Identity = ALICE, **spec: Any) -> Task:
    """A running task."""
    return Task(
        id=number,
        spec=TaskSpec(name=f"task{number}", **spec),
        owner=owner,
        state=TaskState.RUNNING,
        created=NOW - 1000,
        since=NOW - 1000,
    )


def job(number: int, state: JobState, **fields: Any) -> Job:
    """A job of task 1 at the queue of the site east."""
    values: dict[str, Any] = {
        "task": 1,
        "kind": "normal",
        "share": "default",
        "priority": 500,
        "requirements": "[]",
        "attempt": 1,
        "since": NOW - 100,
        "created": NOW - 200,
        "queue": "QE",
    }
    return Job(id=number, state=state, **{**values, **fields})


def transfer(number: int, state: TransferState, **fields: Any) -> Transfer:
    """A download from north-a to east."""
    values: dict[str, Any] = {
        "file": f"file{number}",
        "source": "north-a",
        "destination": "east",
        "direction": "download",
        "share": "_default-download",
        "priority": 25,
        "attempt": 1,
        "created": NOW - 10,
        "since": NOW - 10,
    }
    return Transfer(id=number, state=state, **{**values, **fields})


def file(name: str, job_number: int | None = None) -> File:
    """A file of ten bytes."""
    return File(name=name, size=10, checksum="adler32:00000001", job=job_number)


def replica(name: str, storage: str) -> Replica:
    """A copy."""
    return Replica(file=name, storage=storage)
