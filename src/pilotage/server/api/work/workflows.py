"""Workflows: submit tasks that come after each other, list workflows, look at one."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import BaseModel, Field

from pilotage.explain import chains
from pilotage.explain.layout import folded
from pilotage.flow.calls.work import changes, submit, sure_waits
from pilotage.model.documents.remarks import Remark
from pilotage.model.records.chains import MOST_STAGES
from pilotage.model.values.identity import Credential
from pilotage.model.values.types import Name, Seconds
from pilotage.server.api.documents import Specified
from pilotage.server.api.edge.access import Person, may_read, may_see, owner_seen
from pilotage.server.api.edge.answers import PageOfList, answer, documented, listed
from pilotage.server.api.edge.dependencies import PREFIX, After, Id, Limit, TheRuntime, TheStore, Width
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.work.task_filters import TEXT
from pilotage.server.api.work.tasks import AcceptedTask, IdempotencyKey, RefusedTask, Specs, refusals
from pilotage.store import Store
from pilotage.store.tasks.workflows import StageView, WorkflowView

router = APIRouter(prefix=f"{PREFIX}/workflows", tags=["workflows"], route_class=MeasuredRoute)

_NAME = Query(max_length=200, pattern=TEXT, description="only those of this name")


class WorkflowSubmission(Specs):
    """Tasks that are accepted together or not at all, and the name of their workflow."""

    name: Name
    tasks: Annotated[list[Specified], Field(min_length=1, max_length=MOST_STAGES)]
    lease: Seconds = 0


class WorkflowAnswer(BaseModel):
    """The number of a workflow and its tasks, or why some were refused: then there is none."""

    id: int | None
    name: str
    tasks: list[AcceptedTask]
    refused: list[RefusedTask]
    warnings: list[str] = []


class Workflows(PageOfList):
    """Workflows, newest first."""

    workflows: list[WorkflowView]


class WorkflowDetails(BaseModel):
    """A workflow with its tasks, each after its predecessors, and remarks on tasks that stop or wait."""

    id: int
    name: str
    owner: str
    vo: str
    created: float
    tasks: list[StageView]
    remarks: list[Remark]


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
    if a task is refused; a circle is reported with its path. A repeated Idempotency-Key creates nothing.
    """
    specs, misread = body.read()
    good = [spec for _, spec in specs]
    end = changes.lease_end(runtime, body.lease, good) if body.lease else None
    if misread:
        submitted = submit.examine(runtime, good, caller.identity)
    else:
        key = submit.name_of(caller.identity, idempotency_key)
        submitted = submit.submit(runtime, good, caller.identity, True, key, end, body.name)
    accepted = [AcceptedTask(index=at, id=id_, name=good[at].name) for at, id_ in submitted.tasks]
    ids = [task.id for task in accepted]
    first = runtime.store.queries.task(ids[0]) if ids else None
    reply = WorkflowAnswer(
        id=first.workflow if first else None,
        name=body.name,
        tasks=accepted,
        refused=refusals(misread, ((specs[at][0], faults) for at, faults in submitted.refused)),
        warnings=sure_waits.of_submitted(runtime, ids),
    )
    return answer(reply, 201 if accepted else 422)


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
    if not may_see(caller, view.owner, view.vo):
        raise HTTPException(403, f"workflow {workflow} is one of {view.owner}, which you may only read")
    return view


@router.get("/{workflow}", responses=documented(WorkflowDetails, 404))
def get_workflow(workflow: Id, caller: Person, store: TheStore) -> Response:
    """One workflow with its tasks, and remarks on tasks that stop or wait."""
    view = visible_workflow(store, caller, workflow)
    stages = chains.in_order(store.workflow_queries.stages(workflow))
    remarks = [remark for _, remark in chains.of_stages(stages)]
    document = {"id": view.id, "name": view.name, "owner": view.owner, "vo": view.vo}
    return answer({**document, "created": view.created, "tasks": stages, "remarks": remarks})


@router.get("/{workflow}/explain", responses=documented(WorkflowExplanation, 404))
def get_workflow_explanation(workflow: Id, caller: Person, store: TheStore, width: Width = 0) -> Response:
    """Explain the states of a workflow's tasks, and what holds some of them."""
    view = visible_workflow(store, caller, workflow)
    stages = store.workflow_queries.stages(workflow)
    lines = folded(chains.of_workflow(view.id, view.name, stages, width), width)
    return answer({"workflow": view, "lines": lines})
