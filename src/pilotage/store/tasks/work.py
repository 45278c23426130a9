"""Live work of tasks that must end, and jobs of one task in the form for brokering them again."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import bindparam, select

from pilotage.model.documents.world import JobCount
from pilotage.model.records.states import JOBS_NOT_STARTED, LIVE_JOBS, JobState
from pilotage.model.records.work import Job
from pilotage.store.database.columns import has_state
from pilotage.store.database.rows import among
from pilotage.store.jobs import failures
from pilotage.store.jobs.table import JOB_COLUMNS, is_live, jobs
from pilotage.store.reader import RecordReader
from pilotage.store.worlds import broker_facts
from pilotage.store.worlds.parts import Reading, WorldPart, part

_j = jobs.c
_OF_TASKS = (among(_j.task, "ids"), has_state(jobs, *LIVE_JOBS))
_OF_TASK = (_j.task == bindparam("task"), is_live)
_ONE = (_j.id == bindparam("job"), _j.task == bindparam("task"))
_AMONG = among(_j.id, "jobs")
_UNSTARTED = (_j.task == bindparam("task"), has_state(jobs, *JOBS_NOT_STARTED))
_IN_STATE = (
    select(*JOB_COLUMNS)
    .where(_j.task == bindparam("task"), _j.state == bindparam("state"))
    .order_by(_j.id)
    .limit(bindparam("limit", type_=None))
)


@part("tasks", "failures")
def failing_alike(reading: Reading) -> Mapping[str, Any]:
    """Read live tasks without any success and with enough attempts that failed in the same way (F3)."""
    return failures.failing_the_same_way(
        reading.reader, reading.world.time, reading.world.federation.guard.fewest
    )


@part("jobs")
def live_jobs(reading: Reading) -> Mapping[str, Any]:
    """Read the live jobs of the tasks."""
    ids = [task.id for task in reading["tasks"]]
    return {"jobs": reading.reader.jobs_where(*_OF_TASKS, ids=ids) if ids else ()}


def one_task(number: int) -> WorldPart:
    """Read the task with this number, if it exists."""
    return WorldPart(("tasks",), lambda reading: {"tasks": reading.reader.tasks([number])})


def live_work_of(number: int) -> WorldPart:
    """Read the live jobs of a task, the files that its jobs made, and the live transfers of these."""

    def read(reading: Reading) -> Mapping[str, Any]:
        outputs = reading.reader.files_of_tasks([number])
        return {
            "jobs": reading.reader.jobs_where(*_OF_TASK, task=number),
            "transfers": reading.reader.live_transfers_of(outputs),
            "files": outputs,
        }

    return WorldPart(("jobs", "transfers", "files"), read)


def jobs_as_they_stand(number: int, job: int | None = None) -> WorldPart:
    """Read one job of a task, or the first jobs of a pass: waiting ones first, ended ones if all ended."""

    if job is not None:
        return one_job(number, job)
    return WorldPart(
        ("jobs",), lambda reading: {"jobs": _as_they_stand(reading.reader, number, reading.now.batch)}
    )


def one_job(number: int, job: int) -> WorldPart:
    """Read one job of a task."""
    return WorldPart(
        ("jobs",), lambda reading: {"jobs": reading.reader.jobs_where(*_ONE, job=job, task=number)}
    )


def unstarted_jobs_of(number: int) -> WorldPart:
    """Read the jobs of a task that no pilot has taken in this attempt."""
    return WorldPart(("jobs",), lambda reading: {"jobs": reading.reader.jobs_where(*_UNSTARTED, task=number)})


def _these(ids: Sequence[int]) -> WorldPart:
    return WorldPart(
        ("jobs",), lambda reading: {"jobs": reading.reader.jobs_where(_AMONG, jobs=list(ids)) if ids else ()}
    )


def brokered_again(
    number: int, job: int | None = None, ids: Sequence[int] | None = None
) -> Sequence[str | WorldPart]:
    """Return the parts to read for brokering jobs of a task again, as if they were DEFINED.

    These are one ``job``, the jobs with these ``ids``, or the first jobs of a pass.
    """
    read = jobs_as_they_stand(number, job) if ids is None else _these(ids)
    return (
        *(read, one_task(number), broker_facts.first_skips, "files", "replicas"),
        *(*broker_facts.OF_PLACES, as_if_defined),
    )


@part("jobs", "job_counts")
def as_if_defined(reading: Reading) -> Mapping[str, Any]:
    """Return the jobs as DEFINED, and the counts without them."""
    jobs = reading["jobs"]
    defined = (replace(job, state=JobState.DEFINED, queue="", pilot=None) for job in jobs)
    return {"jobs": tuple(defined), "job_counts": _without(reading["job_counts"], jobs)}


def _as_they_stand(reader: RecordReader, number: int, limit: int) -> tuple[Job, ...]:
    """Return jobs of a task, the earliest states in a job's life first."""
    in_order: list[Job] = []
    for state in JobState:
        if len(in_order) < limit and (
            state in LIVE_JOBS or not in_order or in_order[0].state not in LIVE_JOBS
        ):
            in_order += reader.jobs(_IN_STATE, task=number, state=str(state), limit=limit - len(in_order))
    return tuple(sorted(in_order, key=lambda job: job.id))


def _without(counts: Sequence[JobCount], jobs: Iterable[Job]) -> tuple[JobCount, ...]:
    """Return the counts of all jobs except these."""
    less = Counter((job.queue, job.share, job.state) for job in jobs)
    rest = (replace(row, jobs=row.jobs - less[row.queue, row.share, row.state]) for row in counts)
    return tuple(row for row in rest if row.jobs > 0)
