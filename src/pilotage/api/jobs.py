"""Single jobs: their state, their history, and the reasons for where they are."""

from fastapi import APIRouter, HTTPException, Response

from pilotage.flow import task_cancellation
from pilotage.flow.calls import what_if
from pilotage.flow.errors import NotNow
from pilotage.flow.runtime import Runtime
from pilotage.model.records.logs import LogKey
from pilotage.model.records.states import AT_A_PILOT, ENDED, JobState
from pilotage.model.values.identity import Credential
from pilotage.store import JobDetails, Store

from .access import Person, actor, may_see
from .answers import answer, documented
from .changes import Retry, Set, Told
from .dependencies import PREFIX, AnyAttempt, AnyId, Id, Limit, TheRuntime, TheStore, Width
from .explanations import JobExplanation, explained_job
from .hypotheses import Hypothesis, WhatIfAnswer
from .logs import KeptLogs, shown

router = APIRouter(prefix=f"{PREFIX}/jobs", tags=["jobs"])


@router.get("/{job}", responses=documented(JobDetails, 404))
def get_job(job: Id, caller: Person, store: TheStore) -> Response:
    """A job with its history."""
    return answer(_seen(store, caller, job))


@router.get("/{job}/explain", responses=documented(JobExplanation, 404))
def get_explanation(
    job: Id, caller: Person, runtime: TheRuntime, limit: Limit = 100, width: Width = 0
) -> Response:
    """Explain why a job went where it went, or nowhere, newest first: choices, analyses and text."""
    store = runtime.store
    found = _seen(store, caller, job)
    last = max(store.logs.attempts("job", job), default=0)
    used = last, store.logs.points(LogKey(kind="job", record=job, attempt=last)) if last else ()
    return answer(explained_job(runtime, found, store.queries.job_choices(job, limit), width, used))


@router.get("/{job}/logs", responses=documented(KeptLogs, 404))
def get_logs(
    job: Id,
    caller: Person,
    runtime: TheRuntime,
    attempt: AnyAttempt = 0,
    stdout_seen: AnyId = 0,
    stderr_seen: AnyId = 0,
) -> Response:
    """The output of an attempt and its time line. Without a number: of the latest attempt with output.

    Beginning and end of a stream are kept. The answer leaves out bytes already seen, counted from a stream's
    beginning. For a running attempt, the server asks its pilot for more.
    """
    found = _seen(runtime.store, caller, job)
    known = runtime.store.logs.attempts("job", job)
    at_pilot = found.state in AT_A_PILOT
    number = attempt or (found.attempt if at_pilot or not known else known[-1])
    runs = at_pilot and number == found.attempt
    if runs:
        runtime.log_readers.ask("job", job, runtime.clock())
    seen = {"stdout": stdout_seen, "stderr": stderr_seen}
    return answer(shown(runtime.store, LogKey(kind="job", record=job, attempt=number), seen, runs))


@router.post("/{job}/retry", responses=documented(JobDetails | Told, 404, 409))
def post_retry(
    job: Id, caller: Person, runtime: TheRuntime, body: Retry | None = None, width: Width = 0
) -> Response:
    """Retry one job that ended badly, with changes; its task goes on. A dry run says where it would go."""
    return _done(runtime, caller, job, body or Retry(), width)


@router.post("/{job}/set", responses=documented(JobDetails | Told, 404, 409))
def post_set(job: Id, body: Set, caller: Person, runtime: TheRuntime, width: Width = 0) -> Response:
    """Change fields of one job that has not started. A dry run says where it would go."""
    return _done(runtime, caller, job, body, width)


def _done(runtime: Runtime, caller: Credential, job: int, body: Retry | Set, width: int) -> Response:
    told = body.done(runtime, _seen(runtime.store, caller, job).task, actor(caller), width, job)
    if isinstance(told, Response):
        return told
    return answer(told if body.dry_run else _seen(runtime.store, caller, job))


@router.post("/{job}/cancel", responses=documented(JobDetails, 404, 409))
def post_cancel(job: Id, caller: Person, runtime: TheRuntime) -> Response:
    """Cancel one job of a task; the others go on. Outputs that are stored stay."""
    found = _seen(runtime.store, caller, job)
    if found.state in ENDED["job"] or found.state is JobState.MERGING:
        raise NotNow(f"job {job} is {found.state}: nothing of it is left to cancel")
    task_cancellation.cancel(runtime, found.task, "cancelled by a person", actor(caller), job)
    return answer(_seen(runtime.store, caller, job))


@router.post("/{job}/what-if", responses=documented(WhatIfAnswer, 404, 409))
def post_what_if(
    job: Id, body: Hypothesis, caller: Person, runtime: TheRuntime, width: Width = 0
) -> Response:
    """Broker a job again, without and with changes. Nothing is modified."""
    task = _seen(runtime.store, caller, job).task
    return body.answer(lambda changes: what_if.run(runtime, changes, task, job), width)


def _seen(store: Store, caller: Credential, job: int) -> JobDetails:
    """Return a job that the caller may see; 404 if there is none, or if it belongs to somebody else."""
    found = store.queries.job(job)
    task = store.queries.task(found.task) if found else None
    if found is None or task is None or not may_see(caller, task.owner, task.vo):
        raise HTTPException(404, f"there is no job {job}, or it is not yours")
    return found
