"""Failed attempts for the guards: table, writing, reading (F2, F3), and groups for people."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    Connection,
    Index,
    PrimaryKeyConstraint,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    or_,
    select,
)

from pilotage.model.records.counters import JOBS_BY_TASK
from pilotage.model.records.failure_kinds import FAILURE_RULES
from pilotage.model.records.failures import FailedAttempt, Failure, ending_of
from pilotage.model.records.states import AT_A_PILOT, DONE_JOBS, LIVE_TASKS, JobState
from pilotage.model.records.work import Job, JobKind, place_of
from pilotage.model.rules.failure_causes import Place, TaskOutcomes, judged
from pilotage.model.values.error_lines import telling_line
from pilotage.store.database.columns import has_state, is_state, metadata
from pilotage.store.database.dialects import replaced, upsert
from pilotage.store.database.record_columns import maker, record_columns
from pilotage.store.database.rows import among
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.scout_places import possible
from pilotage.store.jobs.table import jobs
from pilotage.store.pilots.table import pilots
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import TASK_COLUMNS, tasks

failures = Table(
    "failures",
    metadata,
    *record_columns(Failure),
    PrimaryKeyConstraint("job", "attempt"),
    Index("failures_by_place", "queue", "vo", "owner", "node", "time"),
    Index("failures_by_task", "task"),
)

NO_CODE = 2**31 - 1
"""The exit code of a payload that never ran, for comparisons."""

KEPT = 7 * 86400.0
"""Seconds for which a failure is kept: many times the longest that a circuit breaker is open."""

MOST_OF_A_PLACE = 20
"""Failures of an owner that are kept for a node: enough for the longest that a breaker is open."""

MOST_LOOKED_AT = 500
"""Newest jobs of a task in each state to read the places of."""

PLACED = (JobState.ASSIGNED, JobState.ACTIVATED, *AT_A_PILOT)
"""States of jobs that are at a queue and may yet show how they fare there."""

_f, _c, _j, _t = failures.c, counts.c, jobs.c, tasks.c

_COLUMNS = _f.keys()
_failure = maker(Failure, "is_former")
# An attempt fails once. Later only the subjects that it counts against may change.
_SAVE = upsert(failures, ["job", "attempt"], _COLUMNS, replaced(["against", "others"]))
_OLD = delete(failures).where(_f.time < bindparam("before"))
_other_failures = failures.alias()
# Null if a place has fewer: no time is below null, so nothing is deleted.
_NEWEST = (
    select(_other_failures.c.time)
    .where(
        *(_other_failures.c[name] == bindparam(f"its_{name}") for name in ("queue", "vo", "owner", "node"))
    )
    .where(_other_failures.c.kind != "storage")
    .order_by(_other_failures.c.time.desc())
    .limit(1)
    .offset(MOST_OF_A_PLACE - 1)
    .scalar_subquery()
)
_TOO_MANY = delete(failures).where(
    *(_f[name] == bindparam(f"its_{name}") for name in ("queue", "vo", "owner", "node")),
    # Such a failure costs its job no attempt, and trips no breaker of the place.
    _f.kind != "storage",
    _f.time < _NEWEST,
)

_ALL = select(failures).where(_f.time > bindparam("after")).order_by(_f.time, _f.job)
_SPEAKING = _ALL.where(_f.against != "task")
_AT_QUEUES = _SPEAKING.where(among(_f.queue, "queues"))
_EXCUSED = _f.kind.in_([kind for kind, rules in FAILURE_RULES.items() if not rules.counts])
_OF_JOBS = _ALL.where(or_(_f.against != "task", _EXCUSED), among(_f.job, "jobs"))
_ENDED_WELL = (
    select(_c.first)
    .where(_c.counter == JOBS_BY_TASK, _c.state.in_([str(s) for s in DONE_JOBS]), among(_c.first, "tasks"))
    .group_by(_c.first)
    .having(func.sum(_c.count) > 0)
)
_RUNNING = (
    select(_j.task, _j.queue, func.min(_j.started))
    .where(among(_j.task, "tasks"), is_state(jobs, JobState.RUNNING), _j.started.is_not(None))
    .group_by(_j.task, _j.queue)
)
_KNOWN = (*DONE_JOBS, *PLACED)
_COUNTED = (
    select(_c.first, func.sum(_c.count))
    .where(_c.counter == JOBS_BY_TASK, _c.state.in_([str(s) for s in _KNOWN]), among(_c.first, "tasks"))
    .group_by(_c.first)
)
_WHERE = select(_j.task, _j.state, _j.queue, pilots.c.node, _j.pilot).select_from(
    jobs.outerjoin(pilots, pilots.c.id == _j.pilot)
)
_ALL_JOBS = _WHERE.where(among(_j.task, "tasks"), _j.state.in_([str(s) for s in _KNOWN]))
_NEWEST_JOBS = {
    state: _WHERE.where(_j.task == bindparam("task"), is_state(jobs, state))
    .order_by(_j.id.desc())
    .limit(MOST_LOOKED_AT)
    for state in _KNOWN
}
_SHARED = (
    select(_f.task, _f.queue, _f.exit_code, _f.ending)
    .distinct()
    .join(
        _other_failures,
        and_(
            _other_failures.c.queue == _f.queue,
            _other_failures.c.exit_code == _f.exit_code,
            _other_failures.c.ending == _f.ending,
            or_(_other_failures.c.vo != _f.vo, _other_failures.c.owner != _f.owner),
            # If a task's jobs succeed at a node, its failures there are its own fault.
            _other_failures.c.against != "task",
        ),
    )
    .where(among(_f.task, "tasks"), _f.against != "task")
)
_STOPPING = _f.kind.in_([kind for kind, rules in FAILURE_RULES.items() if rules.stops_tasks])
_EXCEEDED = _f.kind.in_([kind for kind, rules in FAILURE_RULES.items() if rules.exceeded])
# Like FailedAttempt.signature. All attempts have the same if the least and the greatest agree.
_WAY = (
    _f.kind,
    case((_EXCEEDED, 0), else_=func.coalesce(_f.exit_code, NO_CODE)),
    case((_EXCEEDED, ""), else_=_f.ending),
)
_ALIKE = (
    select(_f.task)
    .join(jobs, _j.id == _f.job)
    .where(_STOPPING, _f.grows.is_(False), _f.attempt > _j.attempts_before)
    .group_by(_f.task)
    .having(func.count() >= bindparam("least"), *(func.min(column) == func.max(column) for column in _WAY))
)
_LIVE = select(*TASK_COLUMNS).where(among(_t.id, "ids"), has_state(tasks, *LIVE_TASKS)).order_by(_t.id)
_OF_JOB = (
    select(*(_f[item.name] for item in fields(FailedAttempt)))
    .where(_f.job == bindparam("its_job"))
    .order_by(_f.attempt)
)
_OF_TASKS = (
    select(failures, _f.attempt <= _j.attempts_before)
    .select_from(failures.outerjoin(jobs, _j.id == _f.job))
    .where(among(_f.task, "tasks"))
    .order_by(_f.time, _f.job)
)


def write(connection: Connection, new: Sequence[Failure]) -> None:
    """Write failures, or update the subjects of existing ones. Delete old or excess ones."""
    rows = [{name: getattr(failure, name) for name in _COLUMNS} for failure in new]
    connection.execute(_SAVE, rows)
    connection.execute(_OLD, {"before": max(failure.time for failure in new) - KEPT})
    places = {(failure.queue, failure.vo, failure.owner, failure.node) for failure in new}
    for queue, vo, owner, node in sorted(places):
        place = {"its_queue": queue, "its_vo": vo, "its_owner": owner, "its_node": node}
        connection.execute(_TOO_MANY, place)


def of_queues(reader: RecordReader, time: float, queues: Sequence[str]) -> tuple[Failure, ...]:
    """Return the failures that count against queues, or nodes of them, without verdicts."""
    return _records(reader.raw_rows(_AT_QUEUES, after=time - KEPT, queues=queues))


def of_retried(reader: RecordReader, time: float, candidates: Iterable[Job]) -> tuple[Failure, ...]:
    """Return failures of jobs' earlier attempts that count against places. They allow more attempts (F2)."""
    retried = [job.id for job in candidates if job.attempt > 1]
    if not retried:
        return ()
    return _judged(reader, time, reader.raw_rows(_OF_JOBS, after=time - KEPT, jobs=retried))


def of_job(connection: Connection, job: int) -> tuple[FailedAttempt, ...]:
    """Return the stored failed attempts of a job at pilots, oldest first."""
    rows = connection.execute(_OF_JOB, {"its_job": job})
    return tuple(FailedAttempt(**row) for row in rows.mappings())


def of_places(reader: RecordReader, time: float) -> tuple[Failure, ...]:
    """Return the failures that count against queues and nodes, oldest first."""
    return _lifted(reader, _judged(reader, time, reader.raw_rows(_SPEAKING, after=time - KEPT)))


def everything(reader: RecordReader, time: float) -> tuple[Failure, ...]:
    """Return all kept failures."""
    return _lifted(reader, _judged(reader, time, reader.raw_rows(_ALL, after=time - KEPT)))


def failing_the_same_way(reader: RecordReader, time: float, least: int) -> dict[str, Any]:
    """Return live tasks without any success after ``least`` or more attempts that failed in the same way."""
    suspects = [task for (task,) in reader.raw_rows(_ALIKE, least=least)]
    if suspects:
        suspects = sorted({*suspects} - _ended_well(reader, suspects))
    live = reader.tasks_from(_LIVE, ids=suspects) if suspects else ()
    ids = [task.id for task in live]
    verdicts = _judged(reader, time, reader.raw_rows(_OF_TASKS, tasks=ids)) if ids else ()
    return {"tasks": live, "failures": verdicts}


def _records(rows: Iterable[Any]) -> tuple[Failure, ...]:
    return tuple(_failure(row, is_former=any(row[len(_COLUMNS) :])) for row in rows)


def _judged(reader: RecordReader, time: float, rows: Sequence[Any]) -> tuple[Failure, ...]:
    """Return failures with their verdicts, from the outcomes of their tasks (F2)."""
    records = _records(rows)
    suspects = sorted({failure.task for failure in records})
    if not suspects:
        return ()
    verdicts = {
        (failure.job, failure.attempt): failure
        for outcomes in _outcomes(reader, suspects, time)
        for failure in judged(outcomes, time)
    }
    return tuple(verdicts[failure.job, failure.attempt] for failure in records)


def _outcomes(reader: RecordReader, suspects: Sequence[int], time: float) -> Iterator[TaskOutcomes]:
    """Yield the outcomes of tasks with failed jobs, one after another."""
    failures: dict[int, list[Failure]] = defaultdict(list)
    for failure in _records(reader.raw_rows(_OF_TASKS, tasks=suspects)):
        failures[failure.task].append(failure)
    shared: dict[int, set[tuple[str, int | None, str]]] = defaultdict(set)
    for task, queue, exit_code, ending in reader.raw_rows(_SHARED, tasks=suspects):
        shared[task].add((queue, exit_code, ending))
    running: dict[int, dict[str, float]] = defaultdict(dict)
    for task, queue, started in reader.raw_rows(_RUNNING, tasks=suspects):
        running[task][queue] = time - started
    well: dict[int, set[Place]] = defaultdict(set)
    placed: dict[int, set[Place]] = defaultdict(set)
    for task, state, *place in _places(reader, suspects):
        (well if state in DONE_JOBS else placed)[task].add((place[0], place[1]))
    elsewhere = possible(reader, failures)
    for task in suspects:
        yield TaskOutcomes(
            failures=failures[task],
            well=frozenset(well[task]),
            running=running[task],
            placed=frozenset(placed[task]),
            shared=frozenset(shared[task]),
            possible=elsewhere.get(task),
        )


def _places(reader: RecordReader, tasks_: Sequence[int]) -> Iterator[tuple[int, str, str, str]]:
    """Yield task and state of jobs, with their queue, and the node of their pilot.

    For a large task these are the newest jobs in each state.
    """
    counted = reader.raw_rows(_COUNTED, tasks=[str(task) for task in tasks_])
    large = {int(task) for task, count in counted if count > MOST_LOOKED_AT}
    rows = chain(
        reader.raw_rows(_ALL_JOBS, tasks=[task for task in tasks_ if task not in large]),
        *(reader.raw_rows(_NEWEST_JOBS[state], task=task) for task in sorted(large) for state in _KNOWN),
    )
    for task, state, queue, node, pilot in rows:
        yield task, state, queue, "" if pilot is None else place_of(node or "", pilot)


def _lifted(reader: RecordReader, records: Sequence[Failure]) -> tuple[Failure, ...]:
    """Mark failures as lifted if an operator has lifted the breaker of their queue or node since."""
    lifted = (
        {(breaker.kind, *breaker.place): breaker.time for breaker in reader.lifted_breakers()}
        if records
        else {}
    )
    if not lifted:
        return tuple(records)

    def until(failure: Failure) -> float:
        return max(
            lifted.get(key, 0.0)
            for key in (("queue", failure.queue, ""), ("node", failure.queue, failure.node))
        )

    return tuple(
        replace(failure, lifted=True) if failure.time <= until(failure) else failure for failure in records
    )


def _ended_well(reader: RecordReader, suspects: Sequence[int]) -> set[int]:
    rows = reader.raw_rows(_ENDED_WELL, tasks=[str(task) for task in suspects])
    return {int(task) for (task,) in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedGroup:
    """Jobs with a last attempt that failed in one way at one queue.

    ``failed`` counts jobs that failed for good, ``retried`` counts jobs that are tried again. ``error`` is
    the most useful line of the error of the job ``example``.
    """

    error: str
    exit_code: int | None
    queue: str
    failed: int
    retried: int
    example: int


@dataclass(frozen=True, slots=True)
class LastFailure:
    """How a job's last attempt failed, for good or before the job is tried again."""

    id: int
    kind: JobKind
    queue: str
    exit_code: int | None
    error: str
    state: JobState


def failed_groups(rows: Iterable[Any]) -> list[FailedGroup]:
    """Group rows of queue, exit code, error, state, jobs and first job; most jobs first."""
    groups: dict[tuple[str, int | None, str], FailedGroup] = {}
    for queue, exit_code, error, state, count, job, _ in rows:
        is_final = state == JobState.FAILED
        new = FailedGroup(
            error=telling_line(error),
            exit_code=exit_code,
            queue=queue,
            failed=count if is_final else 0,
            retried=0 if is_final else count,
            example=job,
        )
        key = (queue, exit_code, ending_of(telling_line(error)))
        groups[key] = _joined(groups[key], new) if key in groups else new
    return sorted(groups.values(), key=lambda group: (-group.failed - group.retried, group.example))


def _joined(group: FailedGroup, addition: FailedGroup) -> FailedGroup:
    first = min(group, addition, key=attrgetter("example"))
    return replace(first, failed=group.failed + addition.failed, retried=group.retried + addition.retried)
