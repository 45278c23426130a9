"""Delete a task or a workflow on the page."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.routing import Route

from pilotage.flow.errors import NotNow
from pilotage.model.rules.verbs import DELETE
from pilotage.server.api.work.deleting import DeletedTask, DeletionRequest, deleted, deleted_task
from pilotage.server.api.work.tasks import steerable_task
from pilotage.server.api.work.workflows import steerable_workflow
from pilotage.server.web.action_model import ActionPreview, ActionSubject, PageAction
from pilotage.server.web.pages import Visit, command


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeletionSubject(ActionSubject):
    """The tasks that go. ``word`` is how commands call them."""

    tasks: Sequence[DeletedTask]
    word: str


def _of_task(visit: Visit) -> _DeletionSubject:
    task = steerable_task(visit.store, visit.caller, visit.number("task"))
    return _DeletionSubject(
        name=f"task {task.id} {task.name}",
        path=f"/tasks/{task.id}",
        section="Tasks",
        json=f"/tasks/{task.id}",
        then="/tasks",
        tasks=[deleted_task(task)],
        word=str(task.id),
    )


def _of_workflow(visit: Visit) -> _DeletionSubject:
    workflow = steerable_workflow(visit.store, visit.caller, visit.number("workflow"))
    stages = visit.store.workflow_queries.stages(workflow.id)
    return _DeletionSubject(
        name=f"workflow {workflow.id} {workflow.name}",
        path=f"/workflows/{workflow.id}",
        section="Workflows",
        json=f"/workflows/{workflow.id}",
        then="/workflows",
        tasks=[deleted_task(stage) for stage in stages],
        word=f"workflow:{workflow.id}",
    )


def _show(visit: Visit, subject: _DeletionSubject, fault: str) -> ActionPreview:
    words = command(DELETE.name, subject.word)
    try:
        plan = deleted(visit.runtime, subject.tasks, DeletionRequest(dry_run=True))
    except NotNow as error:
        return ActionPreview(says=() if fault else [str(error)], can=False, command=words)
    choice = ("outputs", "its outputs too") if plan.outputs.files else None
    says = ["This goes, and nobody can bring it back:"]
    return ActionPreview(says=says, lines=plan.lines, command=words, choice=choice)


def _do(visit: Visit, subject: _DeletionSubject) -> None:
    outputs = visit.form.get("outputs") == "yes"
    deleted(visit.runtime, subject.tasks, DeletionRequest(outputs=outputs))


_OF_TASK = PageAction(verb=DELETE, find=_of_task, show=_show, do=_do)
_OF_WORKFLOW = PageAction(verb=DELETE, find=_of_workflow, show=_show, do=_do)

ROUTES: Sequence[Route] = (
    *_OF_TASK.routes("/tasks/{task:number}/delete"),
    *_OF_WORKFLOW.routes("/workflows/{workflow:number}/delete"),
)
