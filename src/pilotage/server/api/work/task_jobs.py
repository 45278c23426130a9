"""The jobs of a task: a list, groups by failure, and their logs."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from pilotage.flow.runtime import Runtime
from pilotage.model.records.states import JobState
from pilotage.model.rules.plain_states import PlainWord
from pilotage.server.api.edge.access import Person
from pilotage.server.api.edge.answers import answer, documented, listed
from pilotage.server.api.edge.dependencies import (
    PREFIX,
    After,
    Id,
    Limit,
    TheRuntime,
    TheStore,
    WithParameters,
)
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.views import FailedJobs, Jobs, JobsByQueue
from pilotage.server.api.work.log_excerpts import MOST_LINES, JobLogs, JobLogsPage, excerpt, matching
from pilotage.server.api.work.tasks import visible_task
from pilotage.store import JobPage, JobSort

router = APIRouter(prefix=f"{PREFIX}/tasks", tags=["tasks"], route_class=MeasuredRoute)

LOGS_AT_ONCE = 100
"""Most jobs whose logs one request reads: 12 MB of text at most."""

Failed = Annotated[
    bool, Query(description="only jobs that failed, or are tried again after a failed attempt")
]


@router.get("/{task}/queues", responses=documented(JobsByQueue, 404))
def get_jobs_by_queue(task: Id, caller: Person, store: TheStore) -> Response:
    """How many jobs of a task each queue has, by state. Jobs at no queue have an empty name."""
    visible_task(store, caller, task)
    return answer({"queues": store.job_lists.by_queue(task)})


@router.get("/{task}/jobs", responses=documented(Jobs, 404))
def get_jobs(
    *,
    task: Id,
    caller: Person,
    runtime: TheRuntime,
    state: JobState | None = None,
    word: Annotated[PlainWord | None, Query(description="jobs in any state with this word")] = None,
    failed: Failed = False,
    sort: Annotated[JobSort, Query(description="the column to sort by")] = "id",
    limit: Limit = 100,
    after: After = "",
    inputs: Annotated[bool, Query(description="with the names of the files that they read")] = False,
    parameters: WithParameters = False,
) -> Response:
    """A task's jobs, by id unless sorted otherwise: numbers from the largest down."""
    visible_task(runtime.store, caller, task)
    page = JobPage(
        state=state,
        word=word,
        failed=failed,
        sort=sort,
        limit=limit,
        after=after,
        inputs=inputs,
        parameters=parameters,
    )
    return listed("jobs", runtime.store.job_lists.page(task, page, runtime.clock()))


@router.get("/{task}/failures", responses=documented(FailedJobs, 404))
def get_failures(task: Id, caller: Person, runtime: TheRuntime) -> Response:
    """Failed jobs of a task by error and queue, most jobs first."""
    visible_task(runtime.store, caller, task)
    groups, left_out = runtime.store.job_lists.failed(task)
    return answer({"groups": groups, "left_out": left_out})


@router.get("/{task}/logs", responses=documented(JobLogsPage, 404))
def get_logs(
    *,
    task: Id,
    caller: Person,
    runtime: TheRuntime,
    failed: Failed = False,
    match: Annotated[str, Query(max_length=200, description="only lines that contain this text")] = "",
    lines: Annotated[int, Query(ge=1, le=MOST_LINES, description="lines of head and tail, or matches")] = 10,
    limit: Annotated[int, Query(ge=1, le=LOGS_AT_ONCE, description="how many jobs are read")] = 20,
    after: After = "",
) -> Response:
    """What the latest attempts of jobs wrote: the first and last lines, or the lines with a text.

    One answer covers ``limit`` jobs; ``next`` is the value of ``after`` for the next ones.
    """
    visible_task(runtime.store, caller, task)
    page = JobPage(failed=failed, limit=limit, after=after)
    return answer(read_logs(runtime, task, page, match, lines))


def read_logs(runtime: Runtime, task: int, page: JobPage, match: str, lines: int) -> JobLogsPage:
    """Return what the latest attempts of a page of jobs wrote: first and last lines, or those with a text."""
    jobs = runtime.store.job_lists.page(task, page, runtime.clock())
    logs = runtime.store.logs.latest([job.id for job in jobs])
    job_logs = []
    for job in jobs:
        attempt, streams = logs.get(job.id, (job.attempt, []))
        excerpts = [matching(log, match, lines) if match else excerpt(log, lines) for log in streams]
        if not match or any(stream_excerpt.head for stream_excerpt in excerpts):
            job_logs.append(
                JobLogs(
                    job=job,
                    attempt=attempt,
                    logs=[stream_excerpt for stream_excerpt in excerpts if stream_excerpt.head],
                )
            )
    return JobLogsPage.model_construct(jobs=job_logs, next=jobs.next)
