"""A store that has seen a year: jobs put into its tables as commits would have left them."""

import time
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, text

from pilotage.model.documents.serialization import to_json
from pilotage.model.records.counters import JOBS_BY_QUEUE, JOBS_BY_TASK
from pilotage.model.records.states import JobState
from pilotage.model.records.states import JobState as J
from pilotage.model.records.work import Requirements, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.store import Store
from pilotage.store.history.history import TransitionKind, TransitionKinds, entry
from pilotage.store.history.numbers import numbers
from pilotage.store.jobs.counters import counters
from pilotage.store.tasks.table import tasks

JOBS_PER_TASK = 1000
AGE = 86400.0
"""How long ago jobs that ended did so, in s."""

OWNER = Identity(name="bench", vo="bench")
LIFE = (
    ("", J.DEFINED, "split into jobs", "split"),
    (J.DEFINED, J.ACTIVATED, "brokered", "broker"),
    (J.ACTIVATED, J.SENT, "matched", "pilot:1"),
    (J.SENT, J.RUNNING, "its pilot reports that it runs", "pilot:1"),
    (J.RUNNING, J.FINISHED, "its pilot reports that it is done", "pilot:1"),
)
"""Source, target, cause and actor of each transition of a job that finished."""

PART = 50_000
"""Most jobs of one transaction: a server of PostgreSQL ends one that is idle for too long."""

_NUMBERS = {
    "sqlite": "WITH RECURSIVE n (id) AS (SELECT :first UNION ALL SELECT id + 1 FROM n WHERE id < :last)",
    "postgresql": "WITH n (id) AS (SELECT generate_series(CAST(:first AS bigint), :last))",
}
_USED = ("exit_code", "cpu_seconds", "wall_seconds", "max_rss", "max_workdir")


def fill(
    store: Store,
    jobs: int,
    state: JobState = J.FINISHED,
    per_task: int = JOBS_PER_TASK,
    queues: int = 0,
) -> None:
    """Put so many jobs, finished or waiting, in tasks of a thousand, into a store that has none.

    They are spread over so many ``queues`` called ``queue-NUMBER``, if any.
    """
    write, numbers = store.database.write, TransitionKinds(store.database)
    life = LIFE if state is J.FINISHED else LIFE[: 1 + (state is J.ACTIVATED)]
    kinds = [TransitionKind.of("job", *transition) for transition in life]
    meanings, when = numbers.numbers(kinds), time.time() - AGE * (state is J.FINISHED)
    entries = [entry(meanings[kind], when, by) for kind, (*_, by) in zip(kinds, life, strict=True)]
    values = _job(state, when, "".join(entries), per_task)
    write(lambda connection: _fill_tasks(connection, jobs, state, when, per_task))
    for first in range(1, jobs + 1, PART):
        last = min(jobs, first + PART - 1)
        write(partial(_fill_jobs, first=first, last=last, values=values, per_task=per_task, queues=queues))
    analyze(store)


def analyze(store: Store) -> None:
    """Let PostgreSQL know what its tables hold."""
    if store.database.is_postgresql:
        with _alone(store).connect() as connection:
            connection.exec_driver_sql("VACUUM (ANALYZE)")


def count_again(connection: Connection, *sums: tuple[str, str, str, str]) -> None:
    """Let the counters agree with changed rows: each by its name, its table, and the keys that it sums."""
    connection.execute(delete(counters))
    for counter, table, first, second in sums:
        named = f"{first} AS first, {second} AS second, state, count(*) AS count"
        rows = connection.execute(text(f"SELECT {named} FROM {table} GROUP BY 1, 2, 3")).mappings()
        counted = [{"counter": counter, **row, "first": str(row["first"])} for row in rows]
        connection.execute(insert(counters), counted)


def _alone(store: Store) -> Engine:
    """For statements that run in no transaction."""
    return store.database.engine.execution_options(isolation_level="AUTOCOMMIT")


def _fill_tasks(connection: Connection, jobs: int, state: JobState, now: float, per_task: int) -> None:
    """Write the tasks, the counters and the last numbers."""
    ended, count = state is J.FINISHED, jobs // per_task
    row = {"priority": 500, "owner": "bench", "vo": "bench", "group": "", "vo_role": ""}
    row |= {"state": "finished" if ended else "running", "created": now, "since": now}
    row |= {"spec": to_json(_spec(per_task)).decode(), "planned_jobs": per_task}
    connection.execute(insert(tasks), [{"id": number, **row} for number in range(1, count + 1)])
    counted = [(JOBS_BY_QUEUE, "many-slots" if ended else "", "default", jobs)]
    counted += [(JOBS_BY_TASK, str(number), "", per_task) for number in range(1, count + 1)]
    names = ("counter", "first", "second", "count")
    connection.execute(
        insert(counters), [{**dict(zip(names, one, strict=True)), "state": str(state)} for one in counted]
    )
    connection.execute(insert(numbers), [{"kind": "task", "last": count}, {"kind": "job", "last": jobs}])


def _spec(per_task: int) -> TaskSpec:
    return TaskSpec(name="stored", jobs=per_task)


def _job(state: JobState, now: float, history: str, per_task: int) -> dict[str, Any]:
    """Return the values that all jobs share."""
    values = {"kind": "normal", "share": "default", "priority": 500, "state": str(state), "attempt": 1}
    values |= {"requirements": Requirements.of(_spec(per_task), OWNER).text, "created": now, "since": now}
    values |= {"queue": "", "events": 1, "input_count": 0, "history": history}
    if state is J.FINISHED:
        values |= dict.fromkeys(_USED, 0) | {"pilot": 1, "started": now, "ended": now, "queue": "many-slots"}
    return values


def _fill_jobs(
    connection: Connection, first: int, last: int, values: dict[str, Any], per_task: int, queues: int
) -> None:
    """Have the database make the rows of a part."""
    given = _NUMBERS[connection.dialect.name]
    spread = {"queue": f"'queue-' || id % {queues}"} if queues else {}
    names, bound = ", ".join(values), ", ".join(spread.get(name, f":{name}") for name in values)
    task = f"1 + (id - 1) / {per_task}"
    sql = f"INSERT INTO jobs (id, task, {names}) {given} SELECT id, {task}, {bound} FROM n"
    connection.execute(text(sql), values | {"first": first, "last": last})


def sizes(store: Store) -> dict[str, int]:
    """Bytes by table, and by index as ``TABLE_of_INDEX``, largest first.

    Space that is free to be used again does not count: PostgreSQL gives it back for that.
    """
    if store.database.is_postgresql:
        with _alone(store).connect() as connection:
            connection.exec_driver_sql("VACUUM (FULL)")
    return store.database.read(used)


def used(connection: Connection) -> dict[str, int]:
    """Return the same, with space that is free in the tables."""
    rows = connection.exec_driver_sql(_SIZES[connection.dialect.name])
    return {table if table == name else f"{table}_of_{name}": int(size) for table, name, size in rows}


_SIZES = {
    "sqlite": "SELECT coalesce(tbl_name, dbstat.name), dbstat.name, sum(pgsize) AS size"
    " FROM dbstat LEFT JOIN sqlite_master USING (name) GROUP BY 1, 2 ORDER BY 3 DESC",
    "postgresql": "SELECT relname::text, relname::text, pg_table_size(oid) AS size FROM pg_class"
    " WHERE relkind = 'r' AND oid >= 16384 UNION ALL"
    " SELECT indrelid::regclass::text, relname::text, pg_relation_size(oid) FROM pg_class"
    " JOIN pg_index ON indexrelid = oid WHERE relkind = 'i' AND oid >= 16384"
    " AND indrelid IN (SELECT oid FROM pg_class WHERE relkind = 'r') ORDER BY 3 DESC",
}
