"""Workflows: the list, one as a graph with its tasks, and the chain that a task belongs to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from markupsafe import Markup
from pydantic import BaseModel, Field
from starlette.routing import Route

from pilotage.explain import chains
from pilotage.flow.calls.work.remarks import of_workflow
from pilotage.model.documents.remarks import Remark
from pilotage.model.records.states import LIVE_TASKS
from pilotage.model.rules.chains import before
from pilotage.model.rules.plain_states import task_state
from pilotage.model.values.phrases import reuse
from pilotage.server.api.work.task_filters import TEXT
from pilotage.server.api.work.workflows import visible_workflow
from pilotage.server.web.chain_graph import GraphNode, graph
from pilotage.server.web.drawing import look
from pilotage.server.web.pages import Cursor, Page, Staleness, Visit, command, view
from pilotage.store import ReaderView, StageView, TaskDetails, WorkflowView

ROWS = 50
"""Workflows of a page, or tasks that read outputs of one."""


class WorkflowQuery(BaseModel):
    """The parameters of the list's address."""

    name: Annotated[str, Field(max_length=200, pattern=TEXT)] = ""
    after: Cursor = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowsModel:
    """Workflows, newest first."""

    query: WorkflowQuery
    workflows: Sequence[WorkflowView]
    next_page: str
    shows_owners: bool


def workflows(visit: Visit) -> Page:
    """Show the caller's workflows, or for an operator everybody's."""
    query = visit.query(WorkflowQuery)
    page = visit.store.workflow_queries.workflows(visit.owner, ROWS, query.after, query.name)
    model = WorkflowsModel(
        query=query,
        workflows=page,
        next_page=visit.next_page(page),
        shows_owners=visit.sees_others,
    )
    parameters = {"limit": ROWS, "name": query.name, "after": query.after}
    return Page(
        template="workflows.html",
        title="Workflows",
        section="Workflows",
        model=model,
        json=f"/workflows?{urlencode({name: value for name, value in parameters.items() if value})}",
        command=command("workflows"),
        stale=Staleness(kinds=("task",), seconds=5),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Tasks that come after each other: a picture, and each with its predecessors and why it waits."""

    picture: Markup
    stages: Sequence[StageView]
    after: Mapping[int, str]
    reasons: Mapping[int, Remark]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowModel:
    """One workflow."""

    workflow: WorkflowView
    chain: Chain
    is_live: bool
    reuses: Sequence[tuple[int | None, str]]
    """What became of each stage, if it was resumed, with the earlier task."""


def workflow(visit: Visit) -> Page:
    """Show a workflow as a graph, with its tasks and what holds them."""
    record = visible_workflow(visit.store, visit.caller, visit.number("workflow"))
    return Page(
        template="workflow.html",
        title=record.name,
        section="Workflows",
        model=WorkflowModel(
            workflow=record,
            chain=chain_of(visit, record.id),
            is_live=any(map(record.tasks.get, LIVE_TASKS)),
            reuses=[(stage.task, reuse(stage.name, stage.task, stage.reason)) for stage in record.stages],
        ),
        json=f"/workflows/{record.id}",
        command=command("status", f"workflow:{record.id}"),
        stale=Staleness(kinds=("task", "job")),
    )


def chain_of(visit: Visit, number: int, current: int = 0) -> Chain:
    """Return the tasks of a workflow, each after its predecessors; the ``current`` one is marked."""
    stages = chains.in_order(visit.store.workflow_queries.stages(number))
    remarks = [*of_workflow(visit.runtime, stages)]
    return Chain(
        picture=graph([_node(stage, current) for stage in stages]),
        stages=stages,
        after={stage.id: before(stage.predecessors) for stage in stages},
        reasons={stage.id: remark for stage, remark in reversed(remarks)},
    )


def _node(stage: StageView, current: int) -> GraphNode:
    plain = task_state(stage.state, stage.jobs, stage.held)
    return GraphNode(
        id=stage.id,
        name=stage.name,
        state=str(plain),
        look=look(plain.word),
        jobs={str(state): count for state, count in stage.jobs.items()},
        before=[predecessor.task for predecessor in stage.predecessors],
        is_current=stage.id == current,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowPart:
    """The chain of a task: its workflow's, or the tasks just before and after it."""

    workflow: WorkflowView | None
    chain: Chain | None
    before: Sequence[tuple[int, str, str]]
    readers: Sequence[ReaderView]


def is_chained(task: TaskDetails) -> bool:
    """Return whether a task comes after others, or belongs to a workflow."""
    return bool(task.workflow or task.spec.after)


def part_of(visit: Visit, task: TaskDetails) -> WorkflowPart:
    """Return the chain that a task belongs to."""
    queries = visit.store.workflow_queries
    return WorkflowPart(
        workflow=queries.workflow(task.workflow) if task.workflow else None,
        chain=chain_of(visit, task.workflow, task.id) if task.workflow else None,
        before=[
            (predecessor.task, predecessor.name, predecessor.state)
            for predecessor in queries.predecessors(task.id)
        ],
        readers=queries.readers(task.id, ROWS),
    )


ROUTES: Sequence[Route] = (view("/workflows", workflows), view("/workflows/{workflow:number}", workflow))
