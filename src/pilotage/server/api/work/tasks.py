"""Tasks: submit, list, look at, cancel."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Query, Response
from pydantic import BaseModel, Field

from pilotage.explain import chains
from pilotage.explain.layout import folded
from pilotage.federation.documents import MOST_TASKS
from pilotage.federation.faults import BadDocument
from pilotage.flow.calls.data.inputs import Fault
from pilotage.flow.calls.work import changes, effects, remarks, retry, submit, sure_waits, what_if
from pilotage.flow.runtime import Runtime
from pilotage.model.records.states import LIVE_TASKS, JobState, TaskState
from pilotage.model.records.work import Seconds, TaskSpec
from pilotage.model.rules import webhooks
from pilotage.model.rules.plain_states import PlainWord
from pilotage.model.rules.verbs import CANCEL, OF_TASKS, RETRY, SET, Verb
from pilotage.model.values.identity import Credential
from pilotage.model.values.types import FINITE
from pilotage.request_budget import MOST_FAULTS
from pilotage.server.api.documents import Specified, read
from pilotage.server.api.edge.access import (
    Person,
    actor,
    grounds_of,
    is_owner,
    may_change,
    may_read,
    owner_seen,
)
from pilotage.server.api.edge.answers import FieldFault, answer, documented, faults_of, listed
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import (
    PREFIX,
    After,
    Form,
    Id,
    Limit,
    TheRuntime,
    TheStore,
    Width,
    WithParameters,
)
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.places.queues import QueueName, explained
from pilotage.server.api.views import Outputs, Tasks
from pilotage.server.api.work.changes import Retry, Set, Told
from pilotage.server.api.work.explanations import (
    QueueExplanation,
    TaskExplanation,
    explained_task,
)
from pilotage.server.api.work.hypotheses import Hypothesis, WhatIfAnswer
from pilotage.server.api.work.task_filters import Filter
from pilotage.store import ListPage, OutputPage, Store, TaskDetails, TaskPage, TaskSort, TaskView

router = APIRouter(prefix=f"{PREFIX}/tasks", tags=["tasks"], route_class=MeasuredRoute)

IdempotencyKey = Annotated[
    str,
    Header(
        max_length=200, description="made by the client for one submission; a repeated one is not taken twice"
    ),
]

MOST_READERS = 20
"""Most tasks that an answer names because they have read outputs of a retried one."""

_OF_KEY = "only those that the caller's request with this Idempotency-Key created"


class Specs(RequestBody):
    """Submitted tasks."""

    tasks: Annotated[list[Specified], Field(min_length=1, max_length=MOST_TASKS)]

    def read(self) -> tuple[list[tuple[int, TaskSpec]], list[tuple[int, BadDocument]]]:
        """Return valid specifications, and the faults of the others, each by index."""
        parsed = [(index, read(TaskSpec, task)) for index, task in enumerate(self.tasks)]
        return (
            [(index, spec) for index, spec in parsed if isinstance(spec, TaskSpec)],
            [(index, spec) for index, spec in parsed if isinstance(spec, BadDocument)],
        )


class Submission(Specs):
    """Tasks to accept, each for itself; if ``whole``, all or none."""

    whole: bool = False
    lease: Seconds = 0


class Lease(RequestBody):
    """How many seconds a task may run, unless its lease is renewed again."""

    lease: Annotated[float, Field(gt=0, le=1e8, description="s from now"), FINITE]


class AcceptedTask(BaseModel):
    """An accepted task, by its index in the submission."""

    index: int
    id: int
    name: str


class RefusedTask(BaseModel):
    """A refused task, by its index in the submission, and why."""

    index: int
    errors: list[FieldFault]


class SubmissionAnswer(BaseModel):
    """The outcome for each task."""

    tasks: list[AcceptedTask]
    refused: list[RefusedTask]
    warnings: list[str] = []


@router.post("", status_code=201, responses=documented(SubmissionAnswer, 409, status=201, refuses_all=True))
def post_tasks(
    body: Submission, caller: Person, runtime: TheRuntime, idempotency_key: IdempotencyKey = ""
) -> Response:
    """Submit tasks. A refused task does not keep the others out, unless the submission is all or none.

    422 if none was accepted. The answer has at most 1000 faults, with at least one for each refused task. If
    the caller repeats an Idempotency-Key, nothing is created: the answer names the tasks of the first
    request. With a ``lease`` (s; 0: none), nothing of the tasks runs after it unless it is renewed.
    """
    specs, misread = body.read()
    good = [spec for _, spec in specs]
    end = changes.lease_end(runtime, body.lease, good) if body.lease else None
    # Nothing will be accepted, but examine the rest too, so that the answer has all faults.
    if body.whole and misread:
        submitted = submit.examine(runtime, good, caller.identity)
    else:
        name = submit.name_of(caller.identity, idempotency_key)
        submitted = submit.submit(runtime, good, caller.identity, body.whole, name, end)
    accepted = [
        AcceptedTask(index=specs[at][0], id=id_, name=specs[at][1].name) for at, id_ in submitted.tasks
    ]
    refused = refusals(misread, ((specs[at][0], faults) for at, faults in submitted.refused))
    warnings = sure_waits.of_submitted(runtime, [id_ for _, id_ in submitted.tasks])
    return answer(
        SubmissionAnswer(tasks=accepted, refused=refused, warnings=warnings), 201 if accepted else 422
    )


def refusals(
    misread: Iterable[tuple[int, BadDocument]], refused: Iterable[tuple[int, list[Fault]]]
) -> list[RefusedTask]:
    """Return invalid tasks, and those with other faults, by index."""
    faults_by_index = {index: faults_of(bad) for index, bad in misread}
    faults_by_index |= {index: [FieldFault(*fault) for fault in faults] for index, faults in refused}
    bound = MOST_FAULTS // max(1, len(faults_by_index))
    return [
        RefusedTask(index=index, errors=faults_by_index[index][:bound]) for index in sorted(faults_by_index)
    ]


@router.get("", responses=documented(Tasks, 404))
def get_tasks(
    *,
    caller: Person,
    store: TheStore,
    task_filter: Filter,
    mine: Annotated[bool, Query(description="only the caller's own, also for an operator")] = False,
    shared: Annotated[bool, Query(description="only those that others let the caller read")] = False,
    state: TaskState | None = None,
    word: Annotated[PlainWord | None, Query(description="what people see of them")] = None,
    sort: Annotated[TaskSort, Query(description="newest, changed, priority or name")] = "newest",
    limit: Limit = 100,
    after: After = "",
    key: Annotated[str, Query(max_length=200, description=_OF_KEY)] = "",
) -> Response:
    """The caller's tasks, or for an operator everybody's, newest first unless sorted otherwise.

    Numbers and times are sorted from the largest down, names upwards.
    """
    if key:
        return _submitted(store, submit.name_of(caller.identity, key), limit)
    owner = caller.identity if mine else owner_seen(caller)
    page = TaskPage(
        owner=owner,
        only=store.grants.tasks(caller.identity) if shared else None,
        task_filter=task_filter,
        state=state,
        word=word,
        sort=sort,
        limit=limit,
        after=after,
    )
    tasks = store.task_lists.page(page)
    return listed("tasks", tasks, _with_set_aside(store, tasks))


def _submitted(store: Store, submission: str, limit: int) -> Response:
    """Return the tasks of one submission, in its order; a submission is never longer than a page may be."""
    records = [store.queries.task(id_) for _, id_, _ in store.queries.submitted(submission, limit)]
    tasks = [task for task in records if task is not None]
    return listed("tasks", ListPage(tasks, len(tasks), Counter(task.state for task in tasks)))


def _with_set_aside(store: Store, tasks: Iterable[TaskView]) -> list[TaskView]:
    """Return the tasks. One that a step has set aside has the step's failure as its error."""
    errors = remarks.set_aside_errors(store, "task")
    return [
        replace(task, error=task.error or errors.get(str(task.id), "")) if task.state in LIVE_TASKS else task
        for task in tasks
    ]


def visible_task(store: Store, caller: Credential, task: int) -> TaskDetails:
    """Return a task that the caller may read; 404 if there is none, or if it belongs to another owner.

    Only its owner sees the addresses of its webhooks.
    """
    details = store.queries.task(task)
    grounds = grounds_of(task, details.workflow if details else None)
    if details is None or not may_read(store, caller, details.owner, details.vo, *grounds):
        raise HTTPException(404, f"there is no task {task}, or it is not yours")
    if is_owner(caller, details.owner, details.vo):
        return details
    return replace(details, spec=webhooks.of_spec(details.spec))


def steerable_task(store: Store, caller: Credential, task: int) -> TaskDetails:
    """Return a task that the caller may change; 404 as ``visible_task``, 403 if they may only read it."""
    details = visible_task(store, caller, task)
    grounds = grounds_of(task, details.workflow)
    if not may_change(store, caller, details.owner, details.vo, *grounds):
        raise HTTPException(403, f"task {task} is a task of {details.owner}, which you may only read")
    return details


@router.get("/{task}", responses=documented(TaskDetails, 404))
def get_task(task: Id, caller: Person, runtime: TheRuntime) -> Response:
    """One task with its specification, and why nothing starts where its jobs wait."""
    return answer(whole(runtime, visible_task(runtime.store, caller, task)))


def whole(runtime: Runtime, task: TaskDetails) -> TaskDetails:
    """Return a task with the remarks on it."""
    return replace(task, remarks=remarks.of_task(runtime, task, is_recent=True))


@router.post("/{task}/cancel", responses=documented(TaskView, 404))
def post_cancel(task: Id, caller: Person, runtime: TheRuntime) -> Response:
    """Cancel a task, its jobs and their transfers. A task that has ended stays as it is."""
    steerable_task(runtime.store, caller, task)
    effects.do(runtime, CANCEL, actor(caller), task)
    return answer(steerable_task(runtime.store, caller, task))


class Steered(BaseModel):
    """What a person's verb did to a task: jobs by the state that they were in, and the task as it is now.

    A dry run's ``lines`` show where the jobs would go; a retry's name the inputs that were not looked at
    again.
    """

    jobs: dict[JobState, int]
    task: TaskView
    lines: list[str] = []


@router.post("/{task}/retry", responses=documented(Steered, 404, 409))
def post_retry(
    task: Id, caller: Person, runtime: TheRuntime, body: Retry | None = None, width: Width = 0
) -> Response:
    """Retry the jobs of a task that ended badly, with changes. Finished ones stay, and the task continues."""
    steerable_task(runtime.store, caller, task)
    body = body or Retry()
    outcome = body.done(runtime, RETRY, actor(caller), width, task)
    if isinstance(outcome, Response):
        return outcome
    outcome.lines += folded(
        chains.of_readers(runtime.store.workflow_queries.readers(task, MOST_READERS)), width
    )
    return _answered(runtime, caller, task, outcome)


@router.post("/{task}/set", responses=documented(Steered, 404, 409))
def post_set(task: Id, body: Set, caller: Person, runtime: TheRuntime, width: Width = 0) -> Response:
    """Change fields of a task for jobs that have not started, also for unmade ones."""
    steerable_task(runtime.store, caller, task)
    outcome = body.done(runtime, SET, actor(caller), width, task)
    return outcome if isinstance(outcome, Response) else _answered(runtime, caller, task, outcome)


def _answered(runtime: Runtime, caller: Credential, task: int, outcome: Told) -> Response:
    return answer(
        {"jobs": outcome.jobs, "task": steerable_task(runtime.store, caller, task), "lines": outcome.lines}
    )


def _add_route(verb: Verb) -> None:
    answers = documented(Steered, 404, 409)

    @router.post(f"/{{task}}/{verb.name}", name=f"post_{verb.name}", description=verb.help, responses=answers)
    def post(task: Id, caller: Person, runtime: TheRuntime) -> Response:
        steerable_task(runtime.store, caller, task)
        moved = effects.do(runtime, verb, actor(caller), task).moved
        return answer({"jobs": moved, "task": steerable_task(runtime.store, caller, task)})


for _verb in OF_TASKS:
    _add_route(_verb)


@router.post("/{task}/publish", responses=documented(TaskDetails, 404))
def post_publish(task: Id, caller: Person, runtime: TheRuntime) -> Response:
    """Register outputs that could not enter the task's dataset, after the obstacle is removed."""
    steerable_task(runtime.store, caller, task)
    retry.publish_again(runtime, task, actor(caller))
    return answer(whole(runtime, steerable_task(runtime.store, caller, task)))


@router.post("/{task}/renew", responses=documented(TaskView, 404))
def post_lease(task: Id, body: Lease, caller: Person, runtime: TheRuntime) -> Response:
    """Renew a task's lease, or set one for the first time."""
    details = steerable_task(runtime.store, caller, task)
    changes.renew(runtime, task, details.spec, body.lease, actor(caller))
    return answer(steerable_task(runtime.store, caller, task))


@router.get("/{task}/outputs", responses=documented(Outputs, 404))
def get_outputs(
    task: Id,
    caller: Person,
    store: TheStore,
    parameters: WithParameters = False,
    after: After = "",
    limit: Limit = 10_000,
) -> Response:
    """The files that a task's jobs made, and where they are: a page, by identifier (``file``)."""
    visible_task(store, caller, task)
    return listed("files", store.queries.outputs(task, parameters, OutputPage(after, limit)))


@router.get("/{task}/explain", responses=documented(TaskExplanation, 404))
def get_explanation(
    task: Id, caller: Person, runtime: TheRuntime, text: Form, limit: Limit = 100
) -> Response:
    """Explain why a task's jobs failed, or where they went, newest first: choices, analyses and text."""
    details = visible_task(runtime.store, caller, task)
    return answer(explained_task(runtime, details, runtime.store.queries.task_choices(task, limit), text))


@router.get("/{task}/queues/{queue}/explain", responses=documented(QueueExplanation, 404, 409))
def get_queue_explanation(
    task: Id, queue: QueueName, caller: Person, runtime: TheRuntime, text: Form
) -> Response:
    """Explain one queue, and the decisions there about a task's jobs."""
    visible_task(runtime.store, caller, task)
    return explained(runtime, queue, runtime.store.queries.task_choices(task), text, owner_seen(caller))


@router.post("/{task}/what-if", responses=documented(WhatIfAnswer, 404, 409))
def post_what_if(
    task: Id, body: Hypothesis, caller: Person, runtime: TheRuntime, width: Width = 0
) -> Response:
    """Broker a task's jobs again, without and with changes. Nothing is modified."""
    visible_task(runtime.store, caller, task)
    return body.answer(lambda changes: what_if.run(runtime, changes, task), width)
