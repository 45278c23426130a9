"""Live jobs by owner, throttled jobs that may be released (rules T), and the jobs that a retry reads."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from pilotage.model.records.counters import JOBS_BY_QUEUE, JOBS_BY_TASK
from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.records.spec import OwnerJobs
from pilotage.model.records.states import COUNTED_JOBS, ENDED, JobState
from pilotage.model.records.work import Job
from pilotage.model.rules.job_rooms import JobRooms
from pilotage.model.values.identity import Identity
from pilotage.store.database.columns import has_state
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.table import JOB_COLUMNS, jobs
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import planned_jobs, tasks
from pilotage.store.worlds.parts import Reading, WorldPart, part

_t, _c, _j = tasks.c, counts.c, jobs.c
_THROTTLED = str(JobState.THROTTLED)
_LIMIT: Any = bindparam("limit", type_=None)

_ANY = select(func.sum(_c.count)).where(_c.counter == JOBS_BY_QUEUE, _c.state == _THROTTLED)
_BY_TASK = (
    select(_t.vo, _t.group, _t.owner, _t.id, _c.state, func.sum(_c.count))
    .where(_c.counter == JOBS_BY_TASK, _c.state.in_([*map(str, COUNTED_JOBS), _THROTTLED]))
    .where(_c.first == _t.id.cast(_c.first.type))
    .group_by(_t.vo, _t.group, _t.owner, _t.id, _c.state)
    .having(func.sum(_c.count) > 0)
    .order_by(_t.id)
)
_FIRST = (
    select(*JOB_COLUMNS)
    .where(among(_j.task, "tasks"), has_state(jobs, JobState.THROTTLED))
    .order_by(_j.task, _j.id)
    .limit(_LIMIT)
)

OWNERS = 100
"""Most owners for whom a pass releases throttled jobs: owners with the fewest live jobs."""


def throttled_jobs(limit: float = inf) -> WorldPart:
    """Read live jobs by owner, and the first throttled jobs of owners with room, if a quota is nearly full.

    Add the tasks of these jobs to the tasks already read.
    """
    return WorldPart(("live_jobs", "jobs", "tasks"), lambda reading: _read(reading, limit))


def _read(reading: Reading, largest: float) -> Mapping[str, Any]:
    reader, new, quotas = reading.reader, reading["tasks"], reading.world.federation.quotas
    any_throttled = any(count for (count,) in reader.raw_rows(_ANY))
    if not any_throttled and not _near(reader, quotas, {task.owner.vo for task in new}):
        return {}
    live, backlog = by_owner(reader.connection)
    rooms = JobRooms(quotas, live)
    free = [owner for owner in backlog if rooms.room(owner) > 0]
    free.sort(key=lambda owner: (rooms.live(owner), owner.vo, owner.group, owner.name))
    free_jobs: list[Job] = []
    limit = int(min(reading.now.batch, largest))
    for owner in free[:OWNERS]:
        few = min(rooms.room(owner), max(1, limit // min(OWNERS, len(free))))
        free_jobs += reader.jobs(_FIRST, tasks=backlog[owner], limit=few)
    by_id = {task.id: task for task in (*new, *reader.tasks_of(free_jobs))}
    return {"live_jobs": live, "jobs": tuple(free_jobs), "tasks": tuple(by_id[id_] for id_ in sorted(by_id))}


def _near(reader: RecordReader, quotas: QuotaConstants, vos: Iterable[str]) -> bool:
    """Return whether unfinished tasks could have more live jobs than a quota; this reads no job."""
    return any(quotas.may_throttle(planned_jobs(reader.connection, vo).values()) for vo in vos)


def by_owner(connection: Connection) -> tuple[tuple[OwnerJobs, ...], dict[Identity, list[int]]]:
    """Return each owner's jobs, and its tasks with throttled jobs, first submitted first."""
    sums: dict[Identity, list[int]] = defaultdict(lambda: [0, 0])
    backlog: dict[Identity, list[int]] = defaultdict(list)
    for vo, group, owner, task, state, count in raw_rows(connection, _BY_TASK):
        identity = Identity(name=owner, vo=vo, group=group)
        sums[identity][state == _THROTTLED] += int(count)
        if state == _THROTTLED:
            backlog[identity].append(task)
    totals = tuple(
        OwnerJobs(owner=identity.name, vo=identity.vo, group=identity.group, live=live, throttled=throttled)
        for identity, (live, throttled) in sums.items()
    )
    return totals, backlog


_OF_TASKS = among(jobs.c.task, "ids")
_BAD = has_state(jobs, JobState.FAILED, JobState.CANCELLED, JobState.CLOSED)
_ENDED = has_state(jobs, *ENDED["job"])


@part("jobs", "files", "live_jobs")
def jobs_to_retry(reading: Reading) -> Mapping[str, Any]:
    """Read the jobs of the tasks that ended badly, with their files, and the live jobs of each owner.

    If a task has merge jobs, read finished jobs too: they may have to be merged.
    """
    reader, ids = reading.reader, [task.id for task in reading["tasks"]]
    merged = any(task.spec.merge for task in reading["tasks"])
    return {
        "jobs": reader.jobs_where(_OF_TASKS, _ENDED if merged else _BAD, ids=ids),
        "files": reader.files_of_tasks(ids),
        "live_jobs": by_owner(reader.connection)[0],
    }
