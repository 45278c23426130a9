"""Delete tasks and workflows that have ended."""

from collections.abc import Sequence

from fastapi import APIRouter, Response
from pydantic import BaseModel

from pilotage.explain import deletion as words
from pilotage.flow.calls.work import deletion
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.serialization import to_document
from pilotage.server.api.edge.access import Person
from pilotage.server.api.edge.answers import answer, documented
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import PREFIX, Id, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.work.tasks import steerable_task
from pilotage.server.api.work.workflows import steerable_workflow
from pilotage.store import FileVolume, TaskView

router = APIRouter(prefix=PREFIX, tags=["tasks"], route_class=MeasuredRoute)


class DeletionRequest(RequestBody):
    """Whether outputs go too; with ``dry_run`` nothing is done, and the answer shows what would be."""

    outputs: bool = False
    dry_run: bool = False


class DeletedTask(BaseModel):
    """A task that is deleted."""

    id: int
    name: str
    state: str
    jobs: int


class DeletionAnswer(BaseModel):
    """The deleted tasks, and their files at storages: ``kept`` outputs stay in any case.

    ``lines`` are the same in words. ``outputs`` that were not asked for stay, too.
    """

    tasks: list[DeletedTask]
    outputs: FileVolume
    kept: FileVolume
    copies: FileVolume
    lines: list[str]


@router.post("/tasks/{task}/delete", responses=documented(DeletionAnswer, 404, 409))
def post_deletion(
    task: Id, caller: Person, runtime: TheRuntime, body: DeletionRequest | None = None
) -> Response:
    """Delete a task that has ended, and the copies that it alone used. Its outputs stay unless asked for."""
    view = steerable_task(runtime.store, caller, task)
    return answer(deleted(runtime, [deleted_task(view)], body or DeletionRequest()))


@router.post("/workflows/{workflow}/delete", responses=documented(DeletionAnswer, 404, 409))
def post_workflow_deletion(
    workflow: Id, caller: Person, runtime: TheRuntime, body: DeletionRequest | None = None
) -> Response:
    """Delete a workflow with all its tasks, which have ended; see the deletion of a task."""
    steerable_workflow(runtime.store, caller, workflow)
    stages = runtime.store.workflow_queries.stages(workflow)
    return answer(deleted(runtime, [deleted_task(stage) for stage in stages], body or DeletionRequest()))


def deleted_task(view: TaskView) -> DeletedTask:
    """Return the answer's record of a deleted task."""
    return DeletedTask(id=view.id, name=view.name, state=view.state, jobs=sum(view.jobs.values()))


def deleted(runtime: Runtime, tasks: Sequence[DeletedTask], body: DeletionRequest) -> DeletionAnswer:
    """Delete tasks, or only return what would go. Raises ``NotNow``."""
    ids = [task.id for task in tasks]
    act = deletion.plan if body.dry_run else deletion.delete
    volumes = to_document(act(runtime, ids, body.outputs))
    lines = list(words.lines(volumes, body.outputs, sum(task.jobs for task in tasks)))
    return DeletionAnswer(tasks=list(tasks), lines=lines, **volumes)
