"""Workflows: submit tasks that come after each other, list workflows, look at one."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import BaseModel, Field

from pilotage.explain import chains
from pilotage.explain.layout import folded
from pilotage.flow.calls.work import changes, submit, sure_waits
from pilotage.flow.calls.work.remarks import of_workflow
from pilotage.model.documents.remarks import Remark
from pilotage.model.records.chains import MOST_STAGES, StageReuse
from pilotage.model.values.identity import Credential
from pilotage.model.values.types import Name, Seconds
from pilotage.server.api.documents import Specified
from pilotage.server.api.edge.access import Person, may_change, may_read, owner_seen
from pilotage.server.api.edge.answers import PageOfList, answer, documented, listed
from pilotage.server.api.edge.dependencies import PREFIX, After, Id, Limit, TheRuntime, TheStore, Width
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.work.task_filters import TEXT
from pilotage.server.api.work.tasks import AcceptedTask, IdempotencyKey, RefusedTask, Specs, refusals
from pilotage.store import Store
from pilotage.store.tasks.workflows import StageView, WorkflowView

router = APIRouter(prefix=f"{PREFIX}/workflows", tags=["workflows"], route_class=MeasuredRoute)

_OF_STAGES = "What became of each stage of a resumed workflow; empty: it was not resumed."
_NAME = Query(max_length=200, pattern=TEXT, description="only those of this name")


class WorkflowSubmission(Specs):
    """Tasks that are accepted together or not at all, and the name of their workflow.

    With ``resume``, earlier tasks of the caller stand for the stages that they are equal to.
    """

    name: Name
    tasks: Annotated[list[Specified], Field(min_length=1, max_length=MOST_STAGES)]
    lease: Seconds = 0
    resume: Annotated[
        bool, Field(description="Whether earlier tasks stand for stages that did not change.")
    ] = False


class WorkflowAnswer(BaseModel):
    """The number of a workflow and its tasks, or why some were refused: then there is none.

    ``stages`` has what became of each stage of a resumed workflow. If all are skipped, there are no tasks,
    and the number is the one of the latest workflow that made a task of them.
    """

    id: int | None
    name: str
    tasks: list[AcceptedTask]
    refused: list[RefusedTask]
    warnings: list[str] = []
    stages: Annotated[list[StageReuse], Field(description=_OF_STAGES)] = []


class Workflows(PageOfList):
    """Workflows, newest first."""

    workflows: list[WorkflowView]


class WorkflowDetails(BaseModel):
    """A workflow with its tasks, each after its predecessors, and remarks on tasks that stop or wait.

    ``stages`` has what became of each stage of a resumed one: earlier tasks stand for some.
    """

    id: int
    name: str
    owner: str
    vo: str
    created: float
    tasks: list[StageView]
    remarks: list[Remark]
    stages: Annotated[list[StageReuse], Field(description=_OF_STAGES)]


class WorkflowExplanation(BaseModel):
    """A workflow as lines of text: its tasks, their predecessors, and what holds them."""

    workflow: WorkflowView
    lines: list[str]


@router.post("", status_code=201, responses=documented(WorkflowAnswer, 409, status=201, refuses_all=True))
def post_workflows(
    body: WorkflowSubmission, caller: Person, runtime: TheRuntime, idempotency_key: IdempotencyKey = ""
) -> Response:
    """Submit tasks as a workflow: all or none.

    Names in ``after`` and ``inputs`` mean tasks of the workflow first, then the caller's newest tasks. 422
    if a task is refused; a circle is reported with its path. A repeated Idempotency-Key creates nothing. With
    ``resume``, stages are skipped if the caller's last workflow of this name has them with the same command,
    parameters, environment and inputs, and their outputs are there. 409 if such a task is deleted meanwhile.
    """
    specs, misread = body.read()
    good = [spec for _, spec in specs]
    end = changes.lease_end(runtime, body.lease, good) if body.lease else None
    if misread:
        submitted = submit.examine(runtime, good, caller.identity)
    else:
        key = submit.name_of(caller.identity, idempotency_key)
        submitted = submit.submit(runtime, good, caller.identity, True, key, end, body.name, body.resume)
    accepted = [AcceptedTask(index=at, id=id_, name=good[at].name) for at, id_ in submitted.tasks]
    ids = [task.id for task in accepted]
    stands_in = [stage.task for stage in submitted.stages if stage.is_skipped and stage.task]
    one = runtime.store.queries.task(ids[0] if ids else max(stands_in)) if ids or stands_in else None
    made = runtime.store.workflow_queries.workflow(one.workflow) if one and one.workflow else None
    reply = WorkflowAnswer(
        id=made.id if made else None,
        name=body.name,
        tasks=accepted,
        refused=refusals(misread, ((specs[at][0], faults) for at, faults in submitted.refused)),
        warnings=sure_waits.of_submitted(runtime, ids),
        # Of a repeated request, what the first one did.
        stages=list(submitted.stages or (made.stages if made else ())),
    )
    return answer(reply, 201 if accepted or stands_in else 422)


@router.get("", responses=documented(Workflows))
def get_workflows(
    *,
    caller: Person,
    store: TheStore,
    mine: Annotated[bool, Query(description="only the caller's own, also for an operator")] = False,
    name: Annotated[str, _NAME] = "",
    limit: Limit = 100,
    after: After = "",
) -> Response:
    """The caller's workflows, or for an operator everybody's, newest first."""
    owner = caller.identity if mine else owner_seen(caller)
    return listed("workflows", store.workflow_queries.workflows(owner, limit, after, name))


def visible_workflow(store: Store, caller: Credential, workflow: int) -> WorkflowView:
    """Return a workflow that the caller may read; 404 if there is none, or if it belongs to another owner."""
    view = store.workflow_queries.workflow(workflow)
    if view is None or not may_read(store, caller, view.owner, view.vo, ("workflow", str(workflow))):
        raise HTTPException(404, f"there is no workflow {workflow}, or it is not yours")
    return view


def steerable_workflow(store: Store, caller: Credential, workflow: int) -> WorkflowView:
    """Return a workflow that the caller may change; 403 if they may only read it."""
    view = visible_workflow(store, caller, workflow)
    if not may_change(store, caller, view.owner, view.vo, ("workflow", str(workflow))):
        raise HTTPException(403, f"workflow {workflow} is one of {view.owner}, which you may only read")
    return view


@router.get("/{workflow}", responses=documented(WorkflowDetails, 404))
def get_workflow(workflow: Id, caller: Person, runtime: TheRuntime) -> Response:
    """One workflow with its tasks, and remarks on tasks that stop or wait."""
    view = visible_workflow(runtime.store, caller, workflow)
    stages = chains.in_order(runtime.store.workflow_queries.stages(workflow))
    remarks = [remark for _, remark in of_workflow(runtime, stages)]
    document = {"id": view.id, "name": view.name, "owner": view.owner, "vo": view.vo}
    shown = {"created": view.created, "tasks": stages, "remarks": remarks, "stages": view.stages}
    return answer({**document, **shown})


@router.get("/{workflow}/explain", responses=documented(WorkflowExplanation, 404))
def get_workflow_explanation(workflow: Id, caller: Person, runtime: TheRuntime, width: Width = 0) -> Response:
    """Explain the states of a workflow's tasks, and what holds some of them."""
    view = visible_workflow(runtime.store, caller, workflow)
    stages = chains.in_order(runtime.store.workflow_queries.stages(workflow))
    remarks = of_workflow(runtime, stages)
    lines = folded(chains.of_workflow(view.id, view.name, stages, width, remarks, view.stages), width)
    return answer({"workflow": view, "lines": lines})
