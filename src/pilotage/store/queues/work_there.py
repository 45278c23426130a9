"""Read the work and files at some queues and storages, before a change of their federation."""

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import Connection, bindparam, func, or_, select

from pilotage.model.records.counters import JOBS_BY_QUEUE, PILOTS_BY_QUEUE
from pilotage.model.records.states import LIVE_PILOTS, LIVE_TRANSFERS, JobState
from pilotage.model.rules.federation_changes import STARTED, WorkThere
from pilotage.store.database.columns import is_state
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.files.table import replicas
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.table import jobs
from pilotage.store.pilots.table import pilots
from pilotage.store.transfers.table import transfers

MOST_TASKS = 5
"""Most tasks named per queue, those with the most jobs."""

_c, _j, _r, _t = counts.c, jobs.c, replicas.c, transfers.c
_COUNTED = (
    select(_c.first, _c.state, func.sum(_c.count))
    .where(_c.counter == bindparam("counter"), among(_c.first, "queues"))
    .group_by(_c.first, _c.state)
    .having(func.sum(_c.count) > 0)
    .order_by(_c.first, _c.state)
)
_TASKS = (
    select(_j.task)
    .where(_j.queue == bindparam("queue"), is_state(jobs, *STARTED))
    .group_by(_j.task)
    .order_by(func.count().desc(), _j.task)
    .limit(MOST_TASKS)
)
_SUBMITTED = (
    select(pilots.c.broker, func.count())
    .where(pilots.c.queue == bindparam("queue"), is_state(pilots, *LIVE_PILOTS))
    .group_by(pilots.c.broker)
)
_FILES = select(func.count()).where(_r.storage == bindparam("storage"))
_other_replicas = replicas.alias()
_ONLY = _FILES.where(
    ~select(_other_replicas.c.file)
    .where(_other_replicas.c.file == _r.file, _other_replicas.c.storage != _r.storage)
    .exists()
)
_MOVING = (
    select(func.count())
    .select_from(transfers)
    .where(
        is_state(transfers, *LIVE_TRANSFERS),
        or_(_t.source == bindparam("storage"), _t.destination == bindparam("storage")),
    )
)


def read(connection: Connection, queues: Collection[str], storages: Collection[str]) -> WorkThere:
    """Return the work and files at queues and storages, by name."""
    jobs_there: dict[str, dict[JobState, int]] = defaultdict(dict)
    for queue, state, count in raw_rows(connection, _COUNTED, counter=JOBS_BY_QUEUE, queues=sorted(queues)):
        jobs_there[queue][JobState(state)] = int(count)
    live: dict[str, int] = defaultdict(int)
    for queue, state, count in raw_rows(connection, _COUNTED, counter=PILOTS_BY_QUEUE, queues=sorted(queues)):
        if state in LIVE_PILOTS:
            live[queue] += int(count)
    busy = [queue for queue, states in jobs_there.items() if states.keys() & set(STARTED)]

    def number(query: object, storage: str) -> int:
        return int(raw_rows(connection, query, storage=storage)[0][0])

    return WorkThere(
        jobs=dict(jobs_there),
        pilots=dict(live),
        submitted={queue: dict(raw_rows(connection, _SUBMITTED, queue=queue)) for queue in live},
        tasks={queue: tuple(row[0] for row in raw_rows(connection, _TASKS, queue=queue)) for queue in busy},
        replicas={storage: number(_FILES, storage) for storage in storages},
        only={storage: number(_ONLY, storage) for storage in storages},
        transfers={storage: number(_MOVING, storage) for storage in storages},
    )
