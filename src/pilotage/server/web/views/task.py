"""One task: why it waits, its jobs, its data, its logs and its use, each at a separate address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.routing import Route

from pilotage.explain.analysis import Obstacle
from pilotage.explain.comparison import SideBySide, WhatIf, compare
from pilotage.federation.faults import BadDocument, field_name
from pilotage.flow.calls.work import remarks, what_if
from pilotage.flow.calls.work.what_if import Changes
from pilotage.model.documents.remarks import Remark
from pilotage.model.records.states import ENDED, JobState
from pilotage.model.rules.verbs import CANCEL, RETRY, Verb
from pilotage.server.api.edge.access import grounds_of, may_change
from pilotage.server.api.work.explanations import explained_task
from pilotage.server.api.work.task_filters import TEXT
from pilotage.server.api.work.task_jobs import read_logs
from pilotage.server.api.work.tasks import visible_task, whole
from pilotage.server.web.action_model import ActionLink, FieldQuery, shown_fields
from pilotage.server.web.grant_actions import ShownReader, readers
from pilotage.server.web.pages import Cursor, Page, Staleness, Visit, command, view
from pilotage.server.web.sessions import AS_JSON
from pilotage.server.web.task_verbs import progress, verbs
from pilotage.server.web.views import workflows
from pilotage.server.web.views.work_day import WorkDay, work_day
from pilotage.store import JobPage, JobSort, OutputPage, TaskDetails, UseAtQueue

ROWS = 50
"""Jobs, files or groups of a page."""

LOGS = 10
"""Jobs whose logs a page shows."""

MOST_QUEUES = 100
"""Most queues whose use a page shows, those of most wall time."""

NOTICES = ("held", "blocked", "fault", "warning")
QUIET = ("wait", "line", "end")
"""Kinds of remarks above each tab: notices, and what goes on by itself."""

DECISIONS = 5
"""Decisions that a page explains."""

TABS: Sequence[tuple[str, str]] = (
    ("Why", ""),
    ("Jobs", "/jobs"),
    ("Data", "/data"),
    ("Log", "/log"),
    ("Use", "/use"),
    ("Workflow", "/workflow"),
)
"""The tabs of a task, with the ends of their addresses."""

SORTS: Mapping[JobSort, str] = {
    "id": "number",
    "wait": "longest wait",
    "run": "longest run",
    "memory": "most memory",
    "attempt": "most attempts",
    "since": "last changed",
    "exit": "exit code",
    "queue": "queue",
    "state": "state",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskModel:
    """What each tab of a task shows above its own part."""

    task: TaskDetails
    progress: Mapping[str, int]
    """Its jobs by state, with those that are not made yet."""
    notices: Sequence[Remark]
    quiet: Sequence[Remark]
    verbs: Sequence[ActionLink]
    tabs: Sequence[tuple[str, str]]
    tab: str
    done: str
    readers: Sequence[ShownReader]
    lent_by: str
    """Whose it is, if the caller only reads it."""
    manifest: str
    """The address of its manifest; empty: it has not ended."""
    part: object


def _can_change(visit: Visit, task: TaskDetails) -> bool:
    grounds = grounds_of(task.id, task.workflow)
    return may_change(visit.store, visit.caller, task.owner, task.vo, *grounds)


def _page(visit: Visit, tab: str, part: object, task: TaskDetails, **page_fields: Any) -> Page:
    task = whole(visit.runtime, task)
    can_change = _can_change(visit, task)
    model = TaskModel(
        task=task,
        progress=progress(task),
        notices=[remark for remark in task.remarks if remark.kind in NOTICES],
        quiet=[remark for remark in task.remarks if remark.kind in QUIET],
        verbs=verbs(task) if can_change else [],
        tabs=TABS if workflows.is_chained(task) or tab == "Workflow" else TABS[:-1],
        tab=tab,
        done=visit.done,
        readers=readers(visit, task),
        lent_by="" if can_change else task.owner,
        manifest=f"{AS_JSON}/tasks/{task.id}/manifest" if task.state in ENDED["task"] else "",
        part=part,
    )
    template = f"task-{tab.lower()}.html"
    return Page(
        template=template,
        title=f"{task.name} · {tab}",
        section="Tasks",
        model=model,
        stale=Staleness(tasks=(task.id,)),
        **page_fields,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyPart:
    """The explanation: obstacles of the newest decision, the whole text, and the answer to a what-if."""

    obstacles: Sequence[Obstacle]
    considered: int
    is_outdated: bool
    """Whether a person has changed jobs since that decision."""
    fits: int
    placed: Mapping[str, int]
    unplaced: int
    lines: Sequence[str]
    fields: Sequence[tuple[str, str, str]]
    faults: Sequence[str]
    answer: SideBySide | None
    opened: int
    set_address: str


def reasons(visit: Visit) -> Page:
    """Show why a task's jobs wait or where they went, and what would change that."""
    task = _find_task(visit)
    query = visit.query(FieldQuery)
    choices = visit.store.queries.task_choices(task.id, DECISIONS)
    explanation = explained_task(visit.runtime, task, choices)
    changed = max((change.time for change in task.changes), default=0.0)
    newest = explanation.explanations[0] if explanation.explanations else None
    changes = query.changes()
    what_if: WhatIf | None = None
    faults: list[str] = []
    if changes and task.state not in ENDED["task"]:
        what_if, faults = _what_if(visit, task.id, changes)
    part = WhyPart(
        obstacles=newest.obstacles if newest else (),
        considered=newest.considered if newest else 0,
        is_outdated=bool(choices) and choices[0].time <= changed,
        fits=len(newest.ranks) if newest else 0,
        placed=newest.placed if newest else {},
        unplaced=newest.left if newest else 0,
        lines=explanation.lines,
        fields=shown_fields(query, task.spec) if task.state not in ENDED["task"] else (),
        faults=faults,
        answer=compare(what_if) if what_if else None,
        opened=len(what_if.opened) if what_if else 0,
        set_address=f"/tasks/{task.id}/set?{urlencode(changes)}" if what_if else "",
    )
    assignments = [f"{name}={value}" for name, value in changes.items()]
    return _page(
        visit,
        "Why",
        part,
        task,
        json=f"/tasks/{task.id}/explain",
        command=command("explain", task.id, what_if=assignments),
    )


def _what_if(visit: Visit, task: int, changes: Mapping[str, Any]) -> tuple[WhatIf | None, list[str]]:
    try:
        return what_if.run(visit.runtime, Changes(task=changes), task), []
    except BadDocument as bad:
        return None, [f"{field_name(fault.path)}: {fault.text}" for fault in bad.faults]


class JobsQuery(BaseModel):
    """The parameters of the address of a task's jobs."""

    state: JobState | None = None
    failed: bool = False
    sort: JobSort = "id"
    after: Cursor = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsPart:
    """Failures by error and queue, then jobs."""

    query: JobsQuery
    groups: Sequence[Any]
    left_out: int
    jobs: Sequence[Any]
    sorts: Mapping[JobSort, str]
    next_page: str
    is_first_page: bool
    has_indexes: bool
    has_parameters: bool
    has_reasons: bool
    verbs: Sequence[Verb]


def jobs(visit: Visit) -> Page:
    """Show a task's jobs, after its failures by error and queue."""
    task = _find_task(visit)
    query = visit.query(JobsQuery)
    page = JobPage(**query.model_dump(), limit=ROWS, parameters=True)
    rows = visit.store.job_lists.page(task.id, page, visit.now)
    has_failed = bool(query.failed or task.jobs.get(JobState.FAILED) or task.state not in ENDED["task"])
    groups, left_out = visit.store.job_lists.failed(task.id) if has_failed else ([], 0)
    part = JobsPart(
        query=query,
        groups=groups[:ROWS],
        left_out=left_out + sum(group.failed + group.retried for group in groups[ROWS:]),
        jobs=rows,
        sorts=SORTS,
        next_page=visit.next_page(rows),
        is_first_page=not query.after,
        has_indexes=any(job.index is not None for job in rows),
        has_parameters=any(job.parameters for job in rows),
        has_reasons=any(job.reason for job in rows),
        verbs=(RETRY, CANCEL) if _can_change(visit, task) else (),
    )
    parameters = query.model_dump(mode="json", exclude_defaults=True)
    filters = {
        "failed": query.failed,
        "state": query.state,
        "sort": query.sort if query.sort != "id" else None,
    }
    return _page(
        visit,
        "Jobs",
        part,
        task,
        json=f"/tasks/{task.id}/jobs?{urlencode({'limit': ROWS, **parameters}).replace('True', 'true')}",
        command=command("jobs", task.id, **filters, after=query.after),
    )


class DataQuery(BaseModel):
    """The parameters of the address of a task's data."""

    after: Cursor = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPart:
    """Inputs on their way, and outputs with the storages that hold them."""

    waiting: Sequence[tuple[str, str, int]]
    published: Sequence[Remark]
    outputs: Sequence[Any]
    next_page: str
    is_first_page: bool


def data(visit: Visit) -> Page:
    """Show which data of a task is on its way, and its outputs."""
    task = _find_task(visit)
    query = visit.query(DataQuery)
    outputs = visit.store.queries.outputs(task.id, page=OutputPage(query.after, ROWS))
    part = DataPart(
        waiting=visit.store.transfer_queries.waiting_of(task.id),
        published=remarks.published(visit.runtime, task),
        outputs=outputs,
        next_page=visit.next_page(outputs),
        is_first_page=not query.after,
    )
    return _page(
        visit,
        "Data",
        part,
        task,
        json=f"/tasks/{task.id}/outputs",
        command=command("outputs", task.id),
    )


class TaskLogQuery(BaseModel):
    """The parameters of the address of a task's logs."""

    match: Annotated[str, Field(max_length=200, pattern=TEXT)] = ""
    failed: bool = False
    after: Cursor = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLogPart:
    """Excerpts of the logs of some jobs."""

    query: TaskLogQuery
    jobs: Sequence[Any]
    next_page: str


def log(visit: Visit) -> Page:
    """Show the first and last lines that each job wrote, or the lines with a text."""
    task = _find_task(visit)
    query = visit.query(TaskLogQuery)
    page = JobPage(failed=query.failed, limit=LOGS, after=query.after)
    logs = read_logs(visit.runtime, task.id, page, query.match, 10)
    part = TaskLogPart(
        query=query, jobs=logs.jobs, next_page=visit.address(after=logs.next) if logs.next else ""
    )
    parameters = urlencode(query.model_dump(mode="json", exclude_defaults=True)).replace("True", "true")
    return _page(
        visit,
        "Log",
        part,
        task,
        json=f"/tasks/{task.id}/logs?limit={LOGS}{parameters and '&' + parameters}",
        command=command("logs", task.id, failed=query.failed, match=query.match),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsePart:
    """What ended jobs used, by queue, and in all."""

    day: WorkDay
    queues: Sequence[UseAtQueue]
    more_queues: int
    wall_seconds: float
    cpu_seconds: float
    failed_wall_seconds: float


def use(visit: Visit) -> Page:
    """Show what a task's jobs used."""
    task = _find_task(visit)
    queues = visit.store.job_lists.use(task.id)
    part = UsePart(
        day=work_day(visit, "task", str(task.id)),
        queues=queues[:MOST_QUEUES],
        more_queues=max(len(queues) - MOST_QUEUES, 0),
        wall_seconds=sum(queue.wall_seconds for queue in queues),
        cpu_seconds=sum(queue.cpu_seconds for queue in queues),
        failed_wall_seconds=sum(queue.failed_wall_seconds for queue in queues),
    )
    return _page(
        visit, "Use", part, task, json=f"/tasks/{task.id}", command=command("jobs", task.id, sort="run")
    )


def workflow(visit: Visit) -> Page:
    """Show the chain that a task belongs to."""
    task = _find_task(visit)
    is_one = task.workflow is not None
    return _page(
        visit,
        "Workflow",
        workflows.part_of(visit, task),
        task,
        json=f"/workflows/{task.workflow}" if is_one else f"/tasks/{task.id}",
        command=command("status", f"workflow:{task.workflow}" if is_one else task.id),
    )


def _find_task(visit: Visit) -> TaskDetails:
    return visible_task(visit.store, visit.caller, visit.number("task"))


ROUTES: Sequence[Route] = (
    view("/tasks/{task:number}", reasons),
    view("/tasks/{task:number}/jobs", jobs),
    view("/tasks/{task:number}/data", data),
    view("/tasks/{task:number}/log", log),
    view("/tasks/{task:number}/use", use),
    view("/tasks/{task:number}/workflow", workflow),
)
