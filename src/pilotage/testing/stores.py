"""Bring a store's records into the state that a test needs, through commits alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pilotage.model.documents.decision import (
    Candidates,
    Change,
    Choice,
    Committed,
    Create,
    Creation,
    Decision,
    Move,
    Value,
)
from pilotage.model.records.federation import Federation, Queue, Site, Storage
from pilotage.model.records.states import LIVE_TRANSFERS, JobState, Kind, State, TransferState
from pilotage.model.records.work import NewJob, NewPilot, NewTask, NewTransfer, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.store import Store
from pilotage.testing.records import ALICE, NOW

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

WITHOUT_INPUTS = (
    JobState.DEFINED,
    JobState.ACTIVATED,
    JobState.SENT,
    JobState.STARTING,
    JobState.RUNNING,
    JobState.HOLDING,
    JobState.TRANSFERRING,
    JobState.FINISHED,
)
"""The states of a job without inputs, in order."""


def decision(*changes: Change, time: float = NOW, **rest: Any) -> Decision:
    """Return a decision of a step named ``test``."""
    return Decision(step="test", time=time, seed=1, changes=changes, **rest)


def create(store: Store, *records: Creation, time: float = NOW) -> list[int]:
    """Create records; return their ids."""
    committed = store.commit(decision(Create(records=records, cause="made"), time=time), "tester")
    return [id_ for id_ in committed.created[0] if id_ is not None]


def new_task(store: Store, owner: Identity = ALICE, **spec: Any) -> int:
    """Create a REGISTERED task; return its id."""
    (task,) = create(store, NewTask(spec=TaskSpec(**{"name": "t", **spec}), owner=owner))
    return task


def new_jobs(store: Store, task: int, count: int = 1, time: float = NOW, **values: Any) -> list[int]:
    """Create DEFINED jobs of a task; return their ids."""
    base: dict[str, Any] = {"task": task, "kind": "normal", "share": "default", "priority": 500}
    job = NewJob(**base | {"requirements": "r"} | values)
    return create(store, *[job] * count, time=time)


def elastic(store: Store, task: int, count: int, **values: Any) -> list[int]:
    """Place new jobs of a task at PIC-q, which pilots of CERN-q may take; return their ids."""
    candidates = Candidates(queues=("PIC-q", "CERN-q"), weights=(1.0, 1.0))
    choice = Choice(
        task=task,
        job_kind="normal",
        jobs=(),
        placed={"PIC-q": count},
        considered=2,
        candidates=candidates,
        refusals=(),
    )
    ids = new_jobs(store, task, count, **values)
    to = {"queue": "PIC-q"}
    placed = move("job", ids, JobState.DEFINED, JobState.ACTIVATED, to, choice=0, binding="elastic")
    store.commit(decision(placed, choices=(choice,)), "tester")
    return ids


def new_pilot(store: Store, queue: str = "CERN-q", time: float = NOW, **values: Any) -> int:
    """Create a pilot in state CREATED; return its id."""
    base: dict[str, Any] = {"queue": queue, "requirements": "r", "kind": "generic", "owner": ALICE}
    size = {"cores": 1, "memory": 2000.0, "walltime": 3600.0}
    (pilot,) = create(store, NewPilot(**base | size | values), time=time)
    return pilot


def new_transfer(file: str, destination: str = "PIC-disk", **values: Any) -> NewTransfer:
    """Return a download from CERN that does not exist yet."""
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
    """Return a move with the cause ``test``. ``rest`` has its further fields, such as ``claims``."""
    return Move(
        kind=kind, ids=tuple(ids), source=source, target=target, cause="test", changes=changes or {}, **rest
    )


def passage(
    transfers: Iterable[int],
    source: TransferState,
    target: TransferState,
    changes: Mapping[str, Value] | None = None,
) -> list[Move]:
    """Return the moves of transfers through all states from one to another. The last move sets columns."""
    ids, order = tuple(transfers), (*LIVE_TRANSFERS, TransferState.DONE)
    states = order[order.index(source) : order.index(target) + 1]
    *first, last = [move("transfer", ids, state, following) for state, following in pairwise(states)]
    return [*first, replace(last, changes=changes or {})]


def moved(store: Store, *moves: Move, time: float = NOW) -> Committed:
    """Commit moves that must all be accepted."""
    committed = store.commit(decision(*moves, time=time), "tester")
    assert committed.handed_back == 0
    return committed


def bring(
    store: Store, jobs: Sequence[int], target: JobState, time: float = NOW, pilot: int | None = 1
) -> None:
    """Move DEFINED jobs without inputs to a state, transition by transition, at queue ``CERN-q``."""
    states = WITHOUT_INPUTS[: WITHOUT_INPUTS.index(target) + 1]
    for source, following in pairwise(states):
        changes: dict[str, Value] = {"queue": "CERN-q"} if following == JobState.ACTIVATED else {}
        changes |= {"pilot": pilot} if following == JobState.SENT else {}
        moved(store, move("job", jobs, source, following, changes), time=time)


def states(store: Store, task: int) -> dict[int, JobState]:
    """Return the states of a task's jobs by id."""
    return {job.id: job.state for job in store.queries.jobs(task, None, 10_000)}
