"""A store that has seen a year: finished jobs put into its tables as commits would have left them."""

import time

from sqlalchemy import Connection, insert, text

from pilotage.model.counters import JOBS_BY_QUEUE, JOBS_BY_TASK
from pilotage.model.documents import to_json
from pilotage.model.identity import Identity
from pilotage.model.states import JobState
from pilotage.model.work import Requirements, TaskSpec
from pilotage.store import Store
from pilotage.store.counters import counters
from pilotage.store.numbers import numbers
from pilotage.store.tasks import tasks

JOBS_PER_TASK = 1000
OWNER = Identity(name="bench", vo="bench")
HISTORY = "1 mbx1c2d3\n2 mbx1c2d3 d100\n3 mbx1c2d3 p1\n4 mbx1c2d3 p1\n5 mbx1c2d3 p1\n"

_NUMBERS = {
    "sqlite": "WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < :jobs)",
    "postgresql": "WITH n (id) AS (SELECT generate_series(1, :jobs))",
}
_JOBS = """
INSERT INTO jobs (id, task, kind, share, priority, requirements, state, attempt, created, since, queue, pilot,
  events, input_count, exit_code, cpu_seconds, wall_seconds, max_rss, max_workdir, started, ended, history)
{numbers} SELECT id, 1 + (id - 1) / {each},
  'normal', 'default', 500, :requirements, 'finished', 1, :time, :time,
  'many-slots', 1, 1, 0, 0, 0.01, 0.02, 3.5, 0.1, :time, :time, :history FROM n"""


def fill(store: Store, jobs: int) -> None:
    """Put so many finished jobs, in tasks of a thousand, into a store that has none."""
    store.database.write(lambda connection: _fill(connection, jobs))


def _fill(connection: Connection, jobs: int) -> None:
    now, spec = time.time() - 86400, TaskSpec(name="old", jobs=JOBS_PER_TASK)
    count = jobs // JOBS_PER_TASK
    row = {"priority": 500, "owner": "bench", "vo": "bench", "group": "", "vo_role": "", "state": "finished"}
    row |= {"created": now, "since": now, "spec": to_json(spec).decode(), "planned_jobs": JOBS_PER_TASK}
    connection.execute(insert(tasks), [{"id": number, **row} for number in range(1, count + 1)])
    values = {
        "jobs": jobs,
        "requirements": Requirements.of(spec, OWNER).text,
        "time": now,
        "history": HISTORY,
    }
    sql = _JOBS.format(numbers=_NUMBERS[connection.dialect.name], each=JOBS_PER_TASK)
    connection.execute(text(sql), values)
    state = str(JobState.FINISHED)
    counted = [(JOBS_BY_QUEUE, "many-slots", "default", jobs)]
    counted += [(JOBS_BY_TASK, str(number), "", JOBS_PER_TASK) for number in range(1, count + 1)]
    names = ("counter", "first", "second", "count")
    connection.execute(
        insert(counters), [{**dict(zip(names, one, strict=True)), "state": state} for one in counted]
    )
    connection.execute(insert(numbers), [{"kind": "task", "last": count}, {"kind": "job", "last": jobs}])


def size(store: Store) -> int:
    """Bytes of all tables and indexes without the space that is free to be used again."""
    url = store.database.engine.url
    engine = store.database.engine.execution_options(isolation_level="AUTOCOMMIT")
    if url.get_backend_name() == "sqlite":
        return store.database.read(_sqlite_size)
    with engine.connect() as connection:
        connection.exec_driver_sql("VACUUM (FULL)")
        return int(connection.exec_driver_sql(_POSTGRESQL_SIZE).scalar_one())


_POSTGRESQL_SIZE = (
    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND oid >= 16384"
)


def _sqlite_size(connection: Connection) -> int:
    count, free, page = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (count - free) * page
