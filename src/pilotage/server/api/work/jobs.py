"""Single jobs: their state, their history, and the reasons for where they are."""

from dataclasses import fields

from fastapi import APIRouter, HTTPException, Response

from pilotage.explain.layout import PLAIN, TextForm
from pilotage.flow.calls.work import effects, what_if
from pilotage.flow.runtime import Runtime
from pilotage.model.records.logs import LogKey
from pilotage.model.records.states import AT_A_PILOT
from pilotage.model.rules.verbs import CANCEL, RETRY, SET, Verb
from pilotage.model.values.identity import Credential
from pilotage.server.api.edge.access import Person, actor, grounds_of, may_change, may_read
from pilotage.server.api.edge.answers import answer, documented
from pilotage.server.api.edge.dependencies import (
    PREFIX,
    AnyAttempt,
    AnyId,
    Form,
    Id,
    Limit,
    TheRuntime,
    TheStore,
    Width,
)
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.views import SteeredJob
from pilotage.server.api.work.changes import Retry, Set, Told
from pilotage.server.api.work.explanations import JobExplanation, explained_job
from pilotage.server.api.work.hypotheses import Hypothesis, WhatIfAnswer
from pilotage.server.api.work.logs import KeptLogs, kept_logs
from pilotage.store import JobDetails, Store, TaskDetails

router = APIRouter(prefix=f"{PREFIX}/jobs", tags=["jobs"], route_class=MeasuredRoute)


@router.get("/{job}", responses=documented(JobDetails, 404))
def get_job(job: Id, caller: Person, store: TheStore) -> Response:
    """A job with its history."""
    return answer(visible_job(store, caller, job))


@router.get("/{job}/explain", responses=documented(JobExplanation, 404))
def get_explanation(job: Id, caller: Person, runtime: TheRuntime, text: Form, limit: Limit = 100) -> Response:
    """Explain why a job went where it went, or nowhere, newest first: choices, analyses and text."""
    store = runtime.store
    return answer(explained(runtime, visible_job(store, caller, job), limit, text))


def explained(runtime: Runtime, job: JobDetails, limit: int, text: TextForm = PLAIN) -> JobExplanation:
    """Explain a job by its last decisions, and what its last attempt used."""
    store = runtime.store
    last = max(store.logs.attempts("job", job.id), default=0)
    used = last, store.logs.points(LogKey(kind="job", record=job.id, attempt=last)) if last else ()
    return explained_job(runtime, job, store.queries.job_choices(job.id, limit), text, used)


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
    details = visible_job(runtime.store, caller, job)
    return answer(read_logs(runtime, details, attempt, {"stdout": stdout_seen, "stderr": stderr_seen}))


def read_logs(runtime: Runtime, job: JobDetails, attempt: int, known_bytes: dict[str, int]) -> KeptLogs:
    """Return the output of an attempt (0: the latest with output) after the bytes that the reader knows.

    For a running attempt, ask its pilot for more.
    """
    attempts = runtime.store.logs.attempts("job", job.id)
    at_pilot = job.state in AT_A_PILOT
    number = attempt or (job.attempt if at_pilot or not attempts else attempts[-1])
    runs = at_pilot and number == job.attempt
    if runs:
        runtime.log_readers.ask("job", job.id, runtime.clock())
    return kept_logs(runtime.store, LogKey(kind="job", record=job.id, attempt=number), known_bytes, runs)


@router.post("/{job}/retry", responses=documented(SteeredJob | Told, 404, 409))
def post_retry(
    job: Id, caller: Person, runtime: TheRuntime, body: Retry | None = None, width: Width = 0
) -> Response:
    """Retry one job that ended badly, with changes; its task continues. A dry run shows where it would go."""
    return _done(runtime, caller, job, RETRY, body or Retry(), width)


@router.post("/{job}/set", responses=documented(SteeredJob | Told, 404, 409))
def post_set(job: Id, body: Set, caller: Person, runtime: TheRuntime, width: Width = 0) -> Response:
    """Change fields of one job that has not started. A dry run shows where it would go."""
    return _done(runtime, caller, job, SET, body, width)


def _done(runtime: Runtime, caller: Credential, job: int, verb: Verb, body: Retry, width: int) -> Response:
    outcome = body.done(
        runtime, verb, actor(caller), width, steerable_job(runtime.store, caller, job).task, job
    )
    if isinstance(outcome, Response):
        return outcome
    if body.dry_run:
        return answer(outcome)
    details = steerable_job(runtime.store, caller, job)
    values = {field.name: getattr(details, field.name) for field in fields(details)}
    return answer(SteeredJob(**values, lines=tuple(outcome.lines)))


@router.post("/{job}/cancel", responses=documented(JobDetails, 404, 409))
def post_cancel(job: Id, caller: Person, runtime: TheRuntime) -> Response:
    """Cancel one job of a task; the others go on. Outputs that are stored stay."""
    effects.do(runtime, CANCEL, actor(caller), steerable_job(runtime.store, caller, job).task, job)
    return answer(steerable_job(runtime.store, caller, job))


@router.post("/{job}/what-if", responses=documented(WhatIfAnswer, 404, 409))
def post_what_if(
    job: Id, body: Hypothesis, caller: Person, runtime: TheRuntime, width: Width = 0
) -> Response:
    """Broker a job again, without and with changes. Nothing is modified."""
    task = visible_job(runtime.store, caller, job).task
    return body.answer(lambda changes: what_if.run(runtime, changes, task, job), width)


def visible_job(store: Store, caller: Credential, job: int) -> JobDetails:
    """Return a job that the caller may read; 404 if there is none, or if it belongs to another owner."""
    return _with_task(store, caller, job)[0]


def steerable_job(store: Store, caller: Credential, job: int) -> JobDetails:
    """Return a job that the caller may change; 404 as ``visible_job``, 403 if they may only read it."""
    details, task = _with_task(store, caller, job)
    grounds = grounds_of(task.id, task.workflow)
    if not may_change(store, caller, task.owner, task.vo, *grounds):
        raise HTTPException(403, f"job {job} is of a task of {task.owner}, which you may only read")
    return details


def _with_task(store: Store, caller: Credential, job: int) -> tuple[JobDetails, TaskDetails]:
    details = store.queries.job(job)
    task = store.queries.task(details.task) if details else None
    if details is None or task is None:
        raise HTTPException(404, f"there is no job {job}, or it is not yours")
    if not may_read(store, caller, task.owner, task.vo, *grounds_of(task.id, task.workflow)):
        raise HTTPException(404, f"there is no job {job}, or it is not yours")
    return details, task
