"""Tasks: submit, list, look at, cancel."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import BaseModel, Field

from pilotage.federation.faults import BadDocument
from pilotage.flow import cancel, submit
from pilotage.flow.submit import Submitted
from pilotage.model.identity import Credential
from pilotage.model.states import JobState, TaskState
from pilotage.model.work import TaskSpec
from pilotage.store import Store
from pilotage.store.views import TaskDetails, TaskView

from .access import Person, actor, may_see, owner_seen
from .answers import FieldFault, answer, documented, faults_of
from .documents import Specified
from .parts import Clock, Id, Limit, TheStore, Wake
from .views import Choices, Jobs, Outputs, Tasks

router = APIRouter(prefix="/tasks", tags=["tasks"])


class Submission(BaseModel, extra="forbid"):
    """Tasks to be accepted, each for itself."""

    tasks: Annotated[list[Specified], Field(min_length=1)]


class AcceptedTask(BaseModel):
    """A task that was accepted, by its index in the submission."""

    index: int
    id: int
    name: str


class RefusedTask(BaseModel):
    """A task that was refused, by its index in the submission, and why."""

    index: int
    errors: list[FieldFault]


class SubmissionAnswer(BaseModel):
    """What became of each task."""

    tasks: list[AcceptedTask]
    refused: list[RefusedTask]


@router.post("", status_code=201, responses=documented(SubmissionAnswer, 409, status=201))
def post_tasks(body: Submission, caller: Person, store: TheStore, clock: Clock, wake: Wake) -> Response:
    """Submit tasks. One that is refused does not keep the others out; 422 if none was accepted."""
    read = [(index, spec) for index, spec in enumerate(body.tasks) if isinstance(spec, TaskSpec)]
    misread = [(index, spec) for index, spec in enumerate(body.tasks) if isinstance(spec, BadDocument)]
    submitted = submit.submit(store, [spec for _, spec in read], caller.identity, clock())
    if submitted.tasks:
        wake("split")
    document = _submission(read, misread, submitted)
    return answer(document, 201 if document.tasks else 422)


def _submission(
    read: list[tuple[int, TaskSpec]], misread: list[tuple[int, BadDocument]], submitted: Submitted
) -> SubmissionAnswer:
    """``submitted`` counts the tasks that were read; the answer counts all."""
    accepted = [
        AcceptedTask(index=read[place][0], id=id_, name=read[place][1].name) for place, id_ in submitted.tasks
    ]
    refused = [RefusedTask(index=index, errors=faults_of(bad)) for index, bad in misread]
    for place, faults in submitted.refused:
        refused.append(RefusedTask(index=read[place][0], errors=[FieldFault(*fault) for fault in faults]))
    return SubmissionAnswer(tasks=accepted, refused=sorted(refused, key=lambda task: task.index))


@router.get("", responses=documented(Tasks))
def get_tasks(
    caller: Person,
    store: TheStore,
    state: TaskState | None = None,
    limit: Limit = 100,
    before: Annotated[int | None, Query(description="only tasks of a smaller id")] = None,
) -> Response:
    """The caller's tasks, an operator's everybody's, newest first."""
    return answer({"tasks": store.queries.tasks(owner_seen(caller), state, limit, before)})


def seen(store: Store, caller: Credential, task: int) -> TaskDetails:
    """A task that the caller may see; 404 where there is none or it is somebody else's."""
    found = store.queries.task(task)
    if found is None or not may_see(caller, found.owner, found.vo):
        raise HTTPException(404, f"there is no task {task}, or it is not yours")
    return found


@router.get("/{task}", responses=documented(TaskDetails, 404))
def get_task(task: Id, caller: Person, store: TheStore) -> Response:
    """One task, with what was asked for."""
    return answer(seen(store, caller, task))


@router.post("/{task}/cancel", responses=documented(TaskView, 404))
def post_cancel(task: Id, caller: Person, store: TheStore, clock: Clock, wake: Wake) -> Response:
    """Cancel a task, its jobs and their transfers. One that has ended stays as it is."""
    seen(store, caller, task)
    cancel.cancel(store, task, "cancelled by a person", actor(caller), clock())
    wake("stage")
    return answer(seen(store, caller, task))


@router.get("/{task}/jobs", responses=documented(Jobs, 404))
def get_jobs(
    *,
    task: Id,
    caller: Person,
    store: TheStore,
    state: JobState | None = None,
    limit: Limit = 100,
    after: Annotated[int, Query(description="only jobs of a larger id")] = 0,
) -> Response:
    """A task's jobs by id."""
    seen(store, caller, task)
    return answer({"jobs": store.queries.jobs(task, state, limit, after)})


@router.get("/{task}/outputs", responses=documented(Outputs, 404))
def get_outputs(task: Id, caller: Person, store: TheStore) -> Response:
    """The files that a task's jobs made, and where they lie."""
    seen(store, caller, task)
    return answer({"files": store.queries.outputs(task)})


@router.get("/{task}/explain", responses=documented(Choices, 404))
def get_explanation(task: Id, caller: Person, store: TheStore, limit: Limit = 100) -> Response:
    """Why a task's jobs went where they went, or nowhere, newest first."""
    seen(store, caller, task)
    return answer({"choices": store.queries.task_choices(task, limit)})
