"""Records that tests are made of, brought where a test needs them through commits alone."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pilotage.model.decision import Change, Committed, Create, Creation, Decision, Move, Value
from pilotage.model.federation import Federation, Queue, Site, Storage
from pilotage.model.identity import Identity
from pilotage.model.states import JobState, Kind, State
from pilotage.model.work import NewJob, NewPilot, NewTask, NewTransfer, TaskSpec
from pilotage.store import Store

J = JobState
NOW = 1_000_000.0
ALICE = Identity(name="alice", vo="atlas", group="higgs", vo_role="user")
BOB = Identity(name="bob", vo="cms")

FEDERATION = Federation(
    name="test",
    sites=(Site(name="CERN", nucleus=True), Site(name="PIC")),
    storages=(
        Storage(name="CERN-disk", site="CERN", url="file:///cern"),
        Storage(name="PIC-disk", site="PIC", url="file:///pic"),
    ),
    queues=(
        Queue(name="CERN-q", site="CERN", storage="CERN-disk"),
        Queue(name="PIC-q", site="PIC", storage="PIC-disk"),
    ),
)

WAY = (J.DEFINED, J.ACTIVATED, J.SENT, J.STARTING, J.RUNNING, J.HOLDING, J.TRANSFERRING, J.FINISHED)
"""The states of a job without inputs, in order."""


def decision(*changes: Change, time: float = NOW, **rest: Any) -> Decision:
    """A decision of a step that is of no interest."""
    return Decision(step="test", time=time, seed=1, changes=changes, **rest)


def create(store: Store, *records: Creation, time: float = NOW) -> list[int]:
    """Make records; returns their ids."""
    committed = store.commit(decision(Create(records=records, cause="made"), time=time), "tester")
    return [id_ for id_ in committed.created[0] if id_ is not None]


def new_task(store: Store, owner: Identity = ALICE, **spec: Any) -> int:
    """A registered task."""
    (task,) = create(store, NewTask(spec=TaskSpec(**{"name": "t", **spec}), owner=owner))
    return task


def new_jobs(store: Store, task: int, count: int = 1, time: float = NOW, **values: Any) -> list[int]:
    """Defined jobs of a task."""
    base: dict[str, Any] = {"task": task, "kind": "normal", "share": "default", "priority": 500}
    job = NewJob(**base | {"requirements": "r"} | values)
    return create(store, *[job] * count, time=time)


def new_pilot(store: Store, queue: str = "CERN-q", time: float = NOW, **values: Any) -> int:
    """A pilot that was decided on."""
    base: dict[str, Any] = {"queue": queue, "requirements": "r", "kind": "generic", "owner": ALICE}
    size = {"submit_pool": "default", "cores": 1, "memory": 2000.0, "walltime": 3600.0}
    (pilot,) = create(store, NewPilot(**base | size | values), time=time)
    return pilot


def new_transfer(file: str, destination: str = "PIC-disk", **values: Any) -> NewTransfer:
    """A download from CERN."""
    base: dict[str, Any] = {"source": "CERN-disk", "direction": "download", "share": "atlas", "priority": 50}
    return NewTransfer(**base | {"file": file, "destination": destination} | values)


def move(
    kind: Kind,
    ids: Iterable[int],
    source: State,
    target: State,
    changes: Mapping[str, Value] | None = None,
    **rest: Any,
) -> Move:
    """A move without further conditions."""
    return Move(
        kind=kind, ids=tuple(ids), source=source, target=target, cause="test", changes=changes or {}, **rest
    )


def moved(store: Store, *moves: Move, time: float = NOW) -> Committed:
    """Commit moves of which every record must be accepted."""
    committed = store.commit(decision(*moves, time=time), "tester")
    assert committed.handed_back == 0
    return committed


def bring(
    store: Store, jobs: Sequence[int], target: JobState, time: float = NOW, pilot: int | None = 1
) -> None:
    """Move defined jobs along the way to a state, at the queue CERN-q."""
    steps = WAY[: WAY.index(target) + 1]
    for source, following in pairwise(steps):
        changes: dict[str, Value] = {"queue": "CERN-q"} if following == J.ACTIVATED else {}
        changes |= {"pilot": pilot} if following == J.SENT else {}
        moved(store, move("job", jobs, source, following, changes), time=time)


def states(store: Store, task: int) -> dict[int, JobState]:
    """The states of a task's jobs."""
    return {job.id: job.state for job in store.queries.jobs(task, None, 10_000)}
