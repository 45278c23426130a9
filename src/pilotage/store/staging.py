"""The world of staging: transfers by share, and the jobs that those which ended concern."""

from itertools import chain
from typing import Any

from sqlalchemy import bindparam, or_, select

from pilotage.model.counters import TRANSFERS_BY_SHARE
from pilotage.model.states import JobState, TransferState
from pilotage.model.work import Job, Transfer
from pilotage.model.world import World

from . import transfers as transfer_rows
from .columns import has_state, is_state
from .counters import counters
from .files import files, replicas
from .jobs import JOB_COLUMNS, job_inputs, jobs
from .reader import Reader
from .sets import among
from .transfers import TRANSFER_COLUMNS, transfers

FAILED_LATELY = 86400.0
"""How long a transfer that failed is looked at for jobs that wait for it, in s."""

OLDEST = 10
"""One part in so many of a share is filled by those that wait longest, so that ageing reaches them (D7)."""

_x, _j = transfers.c, jobs.c
_LIMIT: Any = bindparam("limit", type_=None)
_X, _J = TransferState, JobState

_SHARES = (
    select(counters.c.first)
    .where(counters.c.counter == TRANSFERS_BY_SHARE, counters.c.state == str(_X.QUEUED), counters.c.count > 0)
    .order_by(counters.c.first)
)
_QUEUED = (
    select(*TRANSFER_COLUMNS)
    .where(
        _x.share == bindparam("share"), _x.direction == bindparam("direction"), is_state(transfers, _X.QUEUED)
    )
    .where(or_(_x.wake_at.is_(None), _x.wake_at <= bindparam("time")))
    .limit(_LIMIT)
)
_FIRST_QUEUED = _QUEUED.order_by(_x.priority.desc(), _x.id)
_OLDEST_QUEUED = _QUEUED.order_by(_x.since, _x.id)

_READERS = (
    select(_j.id)
    .join(job_inputs, job_inputs.c.job == _j.id)
    .where(
        job_inputs.c.file == _x.file,
        has_state(jobs, _J.ASSIGNED),
        among(_j.queue, "queues"),
        _j.since <= _x.since,
    )
)
_MAKERS = (
    select(_j.id)
    .join(files, files.c.job == _j.id)
    .where(files.c.name == _x.file, has_state(jobs, _J.TRANSFERRING), _j.since <= _x.since)
)
_ARRIVED = select(replicas.c.file).where(replicas.c.file == _x.file, replicas.c.storage == _x.destination)
_FAILED = (
    select(*TRANSFER_COLUMNS)
    .where(
        is_state(transfers, _X.FAILED),
        _x.since > bindparam("since"),
        ~_ARRIVED.exists(),
        or_(_READERS.exists(), _MAKERS.exists()),
    )
    .order_by(_x.since, _x.id)
    .limit(_LIMIT)
)
_HOLDING = select(*JOB_COLUMNS).where(is_state(jobs, _J.HOLDING)).order_by(_j.since, _j.id).limit(_LIMIT)
_WAITING = (
    select(_j.id, _j.queue, job_inputs.c.file)
    .join(job_inputs, job_inputs.c.job == _j.id)
    .where(among(job_inputs.c.file, "names"), has_state(jobs, _J.ASSIGNED))
)
_MADE = (
    select(_j.id)
    .join(files, files.c.job == _j.id)
    .where(among(files.c.name, "names"), has_state(jobs, _J.TRANSFERRING))
)


def read(reader: Reader, world: World, limit: int) -> dict[str, Any]:
    """Transfers, the jobs that wait for those which ended, their files and replicas."""
    ended = [*reader.transfers_in(_X.FINISHING), *_failed(reader, world, limit)]
    found = _jobs(reader, world, ended, limit)
    inputs = reader.inputs_of(job for job in found if job.state == _J.ASSIGNED)
    outputs = reader.outputs_of(job.id for job in found if job.state != _J.ASSIGNED)
    moving = {
        transfer.id: transfer
        for transfer in chain(
            ended,
            reader.transfers_in(_X.DELIVERING),
            _queued(reader, world, limit),
            reader.live_transfers_of([*inputs, *outputs]),
        )
    }
    known = {file.name: file for file in (*inputs, *outputs)}
    known |= {
        file.name: file
        for file in reader.files({transfer.file for transfer in moving.values()} - known.keys())
    }
    return {
        "transfers": tuple(moving[id_] for id_ in sorted(moving)),
        "jobs": found,
        "tasks": reader.tasks_of(found),
        "files": tuple(known[name] for name in sorted(known)),
        "replicas": reader.replicas_of(known.values()),
    }


def _queued(reader: Reader, world: World, limit: int) -> list[Transfer]:
    """Of each share, downloads and uploads apart, those that go first and those that wait longest."""
    found: list[Transfer] = []
    for (share,) in reader.rows(_SHARES):
        for direction in ("download", "upload"):
            values = {"share": share, "direction": direction, "time": world.time}
            first = reader.rows(_FIRST_QUEUED, limit=limit, **values)
            found += map(transfer_rows.transfer, first)
            if len(first) == limit:
                oldest = reader.rows(_OLDEST_QUEUED, limit=max(1, limit // OLDEST), **values)
                found += map(transfer_rows.transfer, oldest)
    return found


def _failed(reader: Reader, world: World, limit: int) -> list[Transfer]:
    """Transfers that failed and that a job still waits for."""
    found: list[Transfer] = []
    for storage in world.federation.storages:
        queues = [queue.name for queue in world.federation.queues if queue.storage == storage.name]
        query = _FAILED.where(_x.destination == storage.name)
        values = {"since": world.time - FAILED_LATELY, "queues": queues, "limit": limit}
        found += map(transfer_rows.transfer, reader.rows(query, **values))
    return found


def _jobs(reader: Reader, world: World, ended: list[Transfer], limit: int) -> tuple[Job, ...]:
    """Jobs whose payload is done, and those that wait for a transfer that ended."""
    storages = {queue.name: queue.storage for queue in world.federation.queues}
    arrivals = {(transfer.file, transfer.destination) for transfer in ended}
    names = sorted({transfer.file for transfer in ended})
    waiting: set[int] = set()
    if names:
        waiting = {
            job
            for job, queue, file in reader.rows(_WAITING, names=names)
            if (file, storages.get(queue)) in arrivals
        }
        waiting |= {job for (job,) in reader.rows(_MADE, names=names)}
    concerned = reader.jobs_where(among(_j.id, "ids"), ids=sorted(waiting)) if waiting else ()
    found = (*reader.jobs(_HOLDING, limit=limit), *concerned)
    return tuple(sorted(found, key=lambda job: job.id))
