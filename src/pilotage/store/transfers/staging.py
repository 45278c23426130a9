"""The world of staging: transfers by share, and the jobs that wait for ended transfers."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from sqlalchemy import bindparam, or_, select

from pilotage.model.circuit_breakers.storages import End, FailedDelivery, storage_breakers
from pilotage.model.documents.world import World
from pilotage.model.records.counters import TRANSFERS_BY_SHARE
from pilotage.model.records.states import JobState, TransferState
from pilotage.model.records.transfer_queues import PREPARING
from pilotage.model.records.work import Job, Transfer
from pilotage.model.rules.transfer_limits import Room
from pilotage.model.rules.transfer_shares import CANCEL_GRACE
from pilotage.store.database.columns import has_state, is_state
from pilotage.store.database.dialects import Dialect, Statement
from pilotage.store.database.record_columns import listed
from pilotage.store.database.rows import among
from pilotage.store.files.table import files, replicas
from pilotage.store.jobs import failures
from pilotage.store.jobs.counters import counters
from pilotage.store.jobs.table import JOB_COLUMNS, is_in, job_inputs, jobs
from pilotage.store.reader import RecordReader
from pilotage.store.transfers import table as transfer_rows
from pilotage.store.transfers.table import TRANSFER_COLUMNS, transfers
from pilotage.store.worlds.parts import Reading, WorldPart, part

UNAWAITED_AFTER = 60.0
"""Seconds in the queue after which a download is checked for waiting jobs."""

FAILED_LATELY = 86400.0
"""Seconds for which a failed transfer is checked for waiting jobs."""

MOST_GAINED = 1000
"""Largest gain of priority by age to consider: larger than the priority of any transfer."""

_x, _j = transfers.c, jobs.c
_LIMIT: Any = bindparam("limit", type_=None)
_X, _J = TransferState, JobState

_BEYOND_THE_QUEUE = (_X.PREPARING, _X.PREPARED, _X.DELIVERING, _X.DELIVERED, _X.FINISHING)
"""Slots or the bound on prepared ones limit each of these, so all are read."""

_SHARES = (
    select(counters.c.first)
    .where(counters.c.counter == TRANSFERS_BY_SHARE, counters.c.state == str(_X.QUEUED), counters.c.count > 0)
    .distinct()
    .order_by(counters.c.first)
)
_DIRECTIONS = ("download", "upload")
_COLUMNS = listed(TRANSFER_COLUMNS, of="x.")
_DUE = f"x.state = '{_X.QUEUED}' AND (x.wake_at IS NULL OR x.wake_at <= :time)"
_ROOM = (
    " AND x.source NOT IN {storages} AND x.destination NOT IN {storages}"
    " AND x.source || ' ' || x.destination NOT IN {pairs}"
    # An end is "SOURCE " or " DESTINATION" or both, with an open breaker. Other sources have room (F4).
    " AND ' ' || x.destination NOT IN {ends} AND ("
    "x.source || ' ' NOT IN {ends} AND x.source || ' ' || x.destination NOT IN {ends}"
    " OR x.source_path = '' AND EXISTS (SELECT 1 FROM replicas AS r WHERE r.file = x.file"
    " AND r.storage <> x.destination AND r.storage || ' ' NOT IN {ends}"
    " AND r.storage || ' ' || x.destination NOT IN {ends}))"
)
_OLDEST = select(_x.since).where(is_state(transfers, _X.QUEUED)).order_by(_x.since).limit(1)


@dataclass(frozen=True, slots=True)
class _Full:
    """Storages, pairs of them, and ends with open circuit breakers. They take no transfer now."""

    storages: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    ends: tuple[End, ...]

    @classmethod
    def of(cls, room: Room) -> "_Full":
        return cls(room.full_storages(), room.full_pairs(), room.full_ends())

    @property
    def any(self) -> bool:
        return bool(self.storages or self.pairs or self.ends)

    def values(self) -> dict[str, str]:
        """Return the parameters of a query that excludes these."""
        if not self.any:
            return {}
        pairs, ends = ([" ".join(pair) for pair in several] for several in (self.pairs, self.ends))
        return {
            "storages": json.dumps(self.storages),
            "pairs": json.dumps(pairs),
            "ends": json.dumps(ends),
        }


def _condition(dialect: Dialect, limited: bool) -> str:
    """Return the condition of a transfer that may start; if ``limited``, only at places with room."""
    listed = {name: dialect.listed(name) for name in ("storages", "pairs", "ends")}
    return _DUE + (_ROOM.format(**listed) if limited else "")


def _first_queued(dialect: Dialect, limited: bool) -> str:
    """Return the query for each place's first transfers by priority."""
    head = f"""
    FROM transfers AS x
    WHERE x.share = place.share AND x.direction = place.direction AND {_condition(dialect, limited)}
    ORDER BY x.priority DESC, x.id LIMIT :each"""
    places = dialect.rows("places", share=str, direction=str)
    return f"""
  SELECT {_COLUMNS} FROM ({places}) AS place {dialect.each("transfers", "x", head)}
  ORDER BY x.priority DESC, x.id"""


def _aged_first(dialect: Dialect, limited: bool) -> str:
    """Return the query for each place's first transfers by age, with priorities from ``lowest`` to below
    ``highest``.

    At equal priority, the longest waiting transfer has gained most. So the query reads only the first ones.
    """
    below = f"""(
    SELECT max(x.priority) FROM transfers AS x WHERE x.share = place.share AND x.direction = place.direction
      AND x.state = '{_X.QUEUED}' AND x.priority < place.{{}} AND x.priority >= place.lowest
  )"""
    head = f"""
    FROM transfers AS x WHERE x.share = place.share AND x.direction = place.direction
      AND x.priority = place.priority AND x.since <= :before AND {_condition(dialect, limited)}
    ORDER BY x.since, x.id LIMIT :each"""
    same = "place.share, place.direction, place.lowest, place.most"
    places = dialect.rows("places", share=str, direction=str, highest=int, lowest=int, most=int)
    gain = dialect.whole.format("(:before - x.since) / :period")
    return f"""
  WITH RECURSIVE levels(share, direction, lowest, most, priority) AS (
    SELECT {same}, {below.format("highest")} FROM ({places}) AS place
    UNION ALL
    SELECT {same}, {below.format("priority")} FROM levels AS place WHERE place.priority IS NOT NULL
  ), heads AS (
    SELECT x.id, row_number() OVER (
      PARTITION BY x.share, x.direction
      ORDER BY {dialect.least}(x.priority + {gain}, place.most) DESC, x.created, x.id
    ) AS turn
    FROM levels AS place {dialect.each("transfers", "x", head)} WHERE place.priority IS NOT NULL
  )
  SELECT {_COLUMNS} FROM heads JOIN transfers AS x ON x.id = heads.id WHERE heads.turn <= :each"""


# By whether any storages, pairs or ends are full.
_FIRST_QUEUED, _AGED_FIRST = (
    {limited: Statement(partial(written, limited=limited)) for limited in (False, True)}
    for written in (_first_queued, _aged_first)
)


_READERS = (
    select(_j.id)
    .join(job_inputs, job_inputs.c.job == _j.id)
    .where(
        job_inputs.c.file == _x.file,
        has_state(jobs, _J.ASSIGNED),
        # Storages' names contain no spaces.
        among(_x.destination + " " + _j.queue, "places"),
        _j.since <= _x.since + bindparam("grace"),
    )
)
_MAKERS = (
    select(_j.id)
    .join(files, files.c.job == _j.id)
    .where(files.c.name == _x.file, has_state(jobs, _J.TRANSFERRING), _j.since <= _x.since)
)
_STILL_WANTED = (
    select(job_inputs.c.file, _j.queue)
    .distinct()
    .join(jobs, job_inputs.c.job == _j.id)
    .where(among(job_inputs.c.file, "names"), has_state(jobs, _J.ASSIGNED))
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
_CANCELLED = (
    select(*TRANSFER_COLUMNS)
    .where(
        is_state(transfers, _X.CANCELLED),
        _x.since > bindparam("since"),
        _x.direction == "download",
        ~_ARRIVED.exists(),
        _READERS.exists(),
    )
    .order_by(_x.since, _x.id)
    .limit(_LIMIT)
)
_HOLDING = select(*JOB_COLUMNS).where(is_in(_J.HOLDING)).order_by(_j.since, _j.id).limit(_LIMIT)
_WAITING = (
    select(_j.id, _j.queue, job_inputs.c.file)
    .join(job_inputs, job_inputs.c.job == _j.id)
    .where(among(job_inputs.c.file, "names"), has_state(jobs, _J.ASSIGNED))
)
_THESE = among(_j.id, "ids")
_MADE = (
    select(_j.id)
    .join(files, files.c.job == _j.id)
    .where(among(files.c.name, "names"), has_state(jobs, _J.TRANSFERRING))
)


@part("transfers", "unawaited", "jobs", "files", "failed_deliveries")
def staged(reading: Reading) -> Mapping[str, Any]:
    """Read transfers in progress, transfers that could start or that ended, and the jobs affected."""
    reader, world, limit = reading.reader, reading.world, reading.now.batch
    active = reader.transfers_in(*_BEYOND_THE_QUEUE)
    failed_deliveries = reader.failed_deliveries()
    ended = [transfer for transfer in active if transfer.state is _X.FINISHING] + _failed(
        reader, world, limit
    )
    affected_jobs = _jobs(reader, world, ended, limit)
    inputs = reader.inputs_of(job for job in affected_jobs if job.state == _J.ASSIGNED)
    outputs = reader.outputs_of(job.id for job in affected_jobs if job.state != _J.ASSIGNED)
    moving = {
        transfer.id: transfer
        for transfer in chain(
            ended,
            active,
            _queued(reader, world, limit, _full(world, active, failed_deliveries)),
            reader.live_transfers_of([*inputs, *outputs]),
        )
    }
    files_by_name = {file.name: file for file in (*inputs, *outputs)}
    files_by_name |= {
        file.name: file
        for file in reader.files({transfer.file for transfer in moving.values()} - files_by_name.keys())
    }
    return {
        "transfers": tuple(moving[id_] for id_ in sorted(moving)),
        "unawaited": unawaited(reader, world, moving.values()),
        "jobs": affected_jobs,
        "files": tuple(files_by_name[name] for name in sorted(files_by_name)),
        "failed_deliveries": failed_deliveries,
    }


def _full(world: World, active: Sequence[Transfer], failed_deliveries: Sequence[FailedDelivery]) -> _Full:
    breakers = storage_breakers(failed_deliveries, world.federation.staging, world.time)
    return _Full.of(Room(world.federation, active, PREPARING, breakers, world.time))


@part("failures")
def of_retried_jobs(reading: Reading) -> Mapping[str, Any]:
    """Read the failures of the jobs' earlier attempts that count against places (F2)."""
    return {"failures": failures.of_retried(reading.reader, reading.world.time, reading["jobs"])}


def downloads_of(names: Collection[str]) -> WorldPart:
    """Read live transfers of some files, and which of these no job waits for (D2)."""

    def read(reading: Reading) -> Mapping[str, Any]:
        reader = reading.reader
        downloads = reader.live_transfers_of(reader.files(names))
        return {"transfers": downloads, "unawaited": unawaited(reader, reading.world, downloads, after=0.0)}

    return WorldPart(("transfers", "unawaited"), read)


def unawaited(
    reader: RecordReader, world: World, candidates: Iterable[Transfer], after: float = UNAWAITED_AFTER
) -> tuple[int, ...]:
    """Return downloads queued for ``after`` s that no job waits for (D2)."""
    queued = [
        transfer
        for transfer in candidates
        if transfer.state in (_X.QUEUED, _X.PREPARED)
        and transfer.direction == "download"
        and transfer.since <= world.time - after
    ]
    if not queued:
        return ()
    storages = {queue.name: queue.storage for queue in world.federation.queues}
    names = sorted({transfer.file for transfer in queued})
    waits = {(file, storages.get(queue)) for file, queue in reader.raw_rows(_STILL_WANTED, names=names)}
    return tuple(
        sorted(transfer.id for transfer in queued if (transfer.file, transfer.destination) not in waits)
    )


def _queued(reader: RecordReader, world: World, limit: int, full: _Full) -> list[Transfer]:
    """Return the first transfers of each share and direction, as many as could be prepared now (D3, D7, D11).

    Every active share is entitled to a slot. So a share gets at most the slots that the others leave. Skip
    transfers that wait for a full storage or link, so that others behind them may start.
    """
    constants = world.federation.staging
    slots = max(constants.preparing_slots, constants.highest_pass)
    places = [(share, direction) for (share,) in reader.raw_rows(_SHARES) for direction in _DIRECTIONS]
    if not places:
        return []
    each = min(max(2, constants.highest_pass), limit)
    first = _first(reader, world, places, each, full)
    active = len({transfer.share for transfer in first})
    if 0 < active < slots:
        each = min(max(slots - active + 2, each), limit)
        first = _first(reader, world, places, each, full)
    read = Counter((transfer.share, transfer.direction) for transfer in first)
    gain = _most_gained(reader, world) if each in read.values() else 0
    if gain < 1:
        return first
    # The transfers are sorted by falling priority. Read them backwards, so that the highest of each stays.
    highest = {(transfer.share, transfer.direction): transfer.priority for transfer in reversed(first)}
    highest_of_share = {transfer.share: transfer.priority for transfer in reversed(first)}
    # Transfers so far below the last one come after all of them.
    reached = {(transfer.share, transfer.direction): transfer.priority - gain for transfer in first}
    more = [
        (*place, highest[place] + 1, reached[place], highest_of_share[place[0]])
        for place, count in read.items()
        if count == each
    ]
    return [*first, *_aged(reader, world, more, each, full)]


def _most_gained(reader: RecordReader, world: World) -> int:
    """Return the priority that the longest waiting transfer has gained by age (D7)."""
    constants = world.federation.staging
    overdue = [world.time - constants.ageing_timeout - since for (since,) in reader.raw_rows(_OLDEST)]
    return min(MOST_GAINED, int(max([0.0, *overdue]) // constants.ageing_period))


def _first(
    reader: RecordReader, world: World, places: Sequence[tuple[str, str]], each: int, full: _Full
) -> list[Transfer]:
    """Return the first transfers of each share and direction by priority, then age."""
    values = {"places": json.dumps(places), "time": world.time, "each": each, **full.values()}
    return [*map(transfer_rows.transfer, reader.raw_rows(_FIRST_QUEUED[full.any], **values))]


def _aged(
    reader: RecordReader, world: World, more: Sequence[tuple[str, str, int, int, int]], each: int, full: _Full
) -> list[Transfer]:
    """Return the first transfers by age of each share and direction that has more (D7)."""
    constants = world.federation.staging
    values = {"places": json.dumps(more), "time": world.time, "each": each, **full.values()}
    values |= {"before": world.time - constants.ageing_timeout, "period": constants.ageing_period}
    return [*map(transfer_rows.transfer, reader.raw_rows(_AGED_FIRST[full.any], **values))]


def _failed(reader: RecordReader, world: World, limit: int) -> list[Transfer]:
    """Return failed or cancelled transfers that a job still waits for."""
    places = [f"{queue.storage} {queue.name}" for queue in world.federation.queues]
    windows = ((_FAILED, FAILED_LATELY, 0.0), (_CANCELLED, 5 * CANCEL_GRACE, CANCEL_GRACE))
    return [
        transfer_rows.transfer(row)
        for query, lately, grace in windows
        for row in reader.raw_rows(query, since=world.time - lately, places=places, limit=limit, grace=grace)
    ]


def _jobs(reader: RecordReader, world: World, ended: list[Transfer], limit: int) -> tuple[Job, ...]:
    """Return jobs with a finished payload, and jobs that wait for an ended transfer."""
    storages = {queue.name: queue.storage for queue in world.federation.queues}
    arrivals = {(transfer.file, transfer.destination) for transfer in ended}
    names = sorted({transfer.file for transfer in ended})
    waiting: set[int] = set()
    if names:
        waiting = {
            job
            for job, queue, file in reader.raw_rows(_WAITING, names=names)
            if (file, storages.get(queue)) in arrivals
        }
        waiting |= {job for (job,) in reader.raw_rows(_MADE, names=names)}
    waiting_jobs = reader.jobs_where(_THESE, ids=sorted(waiting)) if waiting else ()
    every_job = (*reader.jobs(_HOLDING, limit=limit), *waiting_jobs)
    return tuple(sorted(every_job, key=lambda job: job.id))
