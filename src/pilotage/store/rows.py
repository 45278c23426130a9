"""Records made straight from rows: the store wrote them, so they are not checked again."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from pilotage.model.documents import from_json
from pilotage.model.identity import Identity
from pilotage.model.states import JobState, PilotState, TaskState, TransferState
from pilotage.model.work import Job, Measured, Pilot, Task, TaskSpec, Transfer

from .sets import among
from .tables import jobs, pilots, tasks, transfers

JOB_STATES = {str(state): state for state in JobState}
_TASK_STATES = {str(state): state for state in TaskState}
_TRANSFER_STATES = {str(state): state for state in TransferState}
_PILOT_STATES = {str(state): state for state in PilotState}

_t, _j, _x, _p = tasks.c, jobs.c, transfers.c, pilots.c

TASK_COLUMNS = (
    *(_t.id, _t.owner, _t.vo, _t.group, _t.vo_role),
    *(_t.state, _t.created, _t.since, _t.error, _t.measured),
)
JOB_COLUMNS = (
    *(_j.id, _j.task, _j.kind, _j.share, _j.priority, _j.requirements, _j.state, _j.attempt),
    *(_j.since, _j.created, _j.queue, _j.pilot, _j.input_count, _j.events, _j.wake_at, _j.error),
)
TRANSFER_COLUMNS = (
    *(_x.id, _x.file, _x.source, _x.destination, _x.direction, _x.share, _x.priority, _x.state),
    *(_x.attempt, _x.created, _x.since, _x.source_path, _x.emergency, _x.wake_at, _x.heartbeat, _x.error),
)
PILOT_COLUMNS = (
    *(_p.id, _p.queue, _p.requirements, _p.kind, _p.owner, _p.vo, _p.group, _p.vo_role),
    *(_p.submit_pool, _p.cores, _p.memory, _p.walltime, _p.state, _p.created, _p.since),
    *(_p.reference, _p.heartbeat, _p.matched, _p.error),
)
_SPECS = select(_t.id, _t.spec).where(among(_t.id, "ids"))


class Specs:
    """Parsed task specifications by task: they never change, so they are read and checked once."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._known: OrderedDict[int, TaskSpec] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, connection: Connection, ids: Iterable[int]) -> dict[int, TaskSpec]:
        """The specifications of these tasks."""
        found: dict[int, TaskSpec] = {}
        missing: list[int] = []
        with self._lock:
            for id_ in ids:
                if id_ in self._known:
                    self._known.move_to_end(id_)
                    found[id_] = self._known[id_]
                else:
                    missing.append(id_)
        if missing:
            rows = connection.execute(_SPECS, {"ids": missing})
            read = {id_: from_json(TaskSpec, text) for id_, text in rows}
            found |= read
            self._keep(read)
        return found

    def _keep(self, read: Mapping[int, TaskSpec]) -> None:
        with self._lock:
            self._known.update(read)
            while len(self._known) > self._size:
                self._known.popitem(last=False)


def task(row: Sequence[Any], spec: TaskSpec) -> Task:
    """From a row of :data:`TASK_COLUMNS`."""
    id_, owner, vo, group, vo_role, state, created, since, error, measured = row
    return Task(
        id=id_,
        spec=spec,
        owner=Identity(name=owner, vo=vo, group=group, vo_role=vo_role),
        state=_TASK_STATES[state],
        created=created,
        since=since,
        error=error,
        measured=measurement(measured),
    )


def measurement(text: str | None) -> Measured | None:
    """What a task's scouts needed, from its column; None while they were not measured."""
    return None if text is None else from_json(Measured, text)


def job(row: Sequence[Any], inputs: tuple[str, ...]) -> Job:
    """From a row of :data:`JOB_COLUMNS`."""
    return Job(
        id=row[0],
        task=row[1],
        kind=row[2],
        share=row[3],
        priority=row[4],
        requirements=row[5],
        state=JOB_STATES[row[6]],
        attempt=row[7],
        since=row[8],
        created=row[9],
        queue=row[10],
        pilot=row[11],
        inputs=inputs,
        events=row[13],
        wake_at=row[14],
        error=row[15],
    )


def transfer(row: Sequence[Any]) -> Transfer:
    """From a row of :data:`TRANSFER_COLUMNS`."""
    return Transfer(
        id=row[0],
        file=row[1],
        source=row[2],
        destination=row[3],
        direction=row[4],
        share=row[5],
        priority=row[6],
        state=_TRANSFER_STATES[row[7]],
        attempt=row[8],
        created=row[9],
        since=row[10],
        source_path=row[11],
        emergency=row[12],
        wake_at=row[13],
        heartbeat=row[14],
        error=row[15],
    )


def pilot(row: Sequence[Any]) -> Pilot:
    """From a row of :data:`PILOT_COLUMNS`."""
    return Pilot(
        id=row[0],
        queue=row[1],
        requirements=row[2],
        kind=row[3],
        owner=Identity(name=row[4], vo=row[5], group=row[6], vo_role=row[7]),
        submit_pool=row[8],
        cores=row[9],
        memory=row[10],
        walltime=row[11],
        state=_PILOT_STATES[row[12]],
        created=row[13],
        since=row[14],
        reference=row[15],
        heartbeat=row[16],
        matched=row[17],
        error=row[18],
    )
