"""The list of tasks: filtered, sorted, in pages; and the field in the header, which finds tasks and jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.routing import Route

from pilotage.model.records.states import TaskState
from pilotage.model.rules.verbs import CANCEL, DELETE, HOLD, RELEASE, RETRY, Verb
from pilotage.server.api.work.task_filters import TEXT, LabelWanted, filter_of
from pilotage.server.web.pages import Cursor, Page, Redirect, Staleness, Visit, command, view
from pilotage.store import TaskPage, TaskSort, TaskView

LABELS: Mapping[TaskState, str] = {
    TaskState.WAITING: "after others",
    TaskState.REGISTERED: "new",
    TaskState.SCOUTING: "scouts first",
    TaskState.SPLITTING: "being split",
    TaskState.RUNNING: "under way",
    TaskState.MERGING: "being merged",
    TaskState.FINISHED: "done",
    TaskState.FAILED: "failed",
    TaskState.CANCELLED: "cancelled",
}
"""How the list calls tasks of a state."""

LONGEST_WORD = 150
"""Most characters of a word to find; a name in a filter may have some more."""

ROWS = 50
"""Tasks of a page."""

SORTS: Mapping[TaskSort, str] = {
    "newest": "newest first",
    "changed": "last changed",
    "priority": "priority",
    "name": "name",
}

Text = Annotated[str, Field(max_length=200, pattern=TEXT)]


class TaskQuery(BaseModel):
    """The parameters of the list's address."""

    name: Text = ""
    owner: Text = ""
    shared: bool = False
    site: Text = ""
    label: Annotated[list[LabelWanted], Field(max_length=20)] = []
    state: TaskState | None = None
    sort: TaskSort = "newest"
    after: Cursor = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLink:
    """A state with its number of tasks, and the address that lists them alone."""

    label: str
    count: int
    address: str
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksModel:
    """The list of tasks as it is shown."""

    query: TaskQuery
    tasks: Sequence[TaskView]
    total: int | None
    states: Sequence[StateLink]
    sorts: Mapping[TaskSort, str]
    next_page: str
    is_first_page: bool
    shows_owners: bool
    is_filtered: bool
    verbs: Sequence[Verb]


def tasks(visit: Visit) -> Page:
    """Show the tasks of the caller, or an operator everybody's."""
    query = visit.query(TaskQuery)
    task_filter = filter_of(visit.store, query.name, query.owner, query.site, query.label or None)
    page = visit.store.task_lists.page(
        TaskPage(
            owner=visit.owner,
            only=visit.store.grants.tasks(visit.caller.identity) if query.shared else None,
            task_filter=task_filter,
            state=query.state,
            sort=query.sort,
            limit=ROWS,
            after=query.after,
        )
    )
    model = TasksModel(
        query=query,
        tasks=page,
        total=page.total,
        states=_states(visit, query, page.counts),
        sorts=SORTS,
        next_page=visit.next_page(page),
        is_first_page=not query.after,
        shows_owners=visit.sees_others or query.shared,
        verbs=(RETRY, HOLD, RELEASE, CANCEL, DELETE),
        is_filtered=bool(query.name or query.owner or query.site or query.label or query.state),
    )
    return Page(
        template="tasks.html",
        title="Tasks",
        section="Tasks",
        model=model,
        json=_json(query),
        command=_command(query),
        stale=Staleness(seconds=3),
    )


def _states(visit: Visit, query: TaskQuery, counts: Mapping[TaskState, int]) -> Sequence[StateLink]:
    every = StateLink(
        label="all",
        count=sum(counts.values()),
        address=visit.address(state=None, after=None),
        is_current=query.state is None,
    )
    by_state = {**counts, **({query.state: counts.get(query.state, 0)} if query.state else {})}
    links = [
        StateLink(
            label=LABELS[state],
            count=count,
            address=visit.address(state=state, after=None),
            is_current=query.state is state,
        )
        for state, count in by_state.items()
    ]
    return [every, *links]


def _json(query: TaskQuery) -> str:
    parameters: dict[str, object] = {
        "name": query.name,
        "owner": query.owner,
        "shared": "true" if query.shared else "",
        "site": query.site,
        "label": query.label,
        "state": query.state or "",
        "limit": ROWS,
        "sort": query.sort if query.sort != "newest" else "",
        "after": query.after,
    }
    return "/tasks?" + urlencode({name: value for name, value in parameters.items() if value}, doseq=True)


def _command(query: TaskQuery) -> str:
    return command(
        "status",
        state=query.state,
        name=query.name,
        owner=query.owner,
        site=query.site,
        label=query.label,
        shared=query.shared,
    )


def find(visit: Visit) -> Redirect:
    """Go to what a word names."""
    word = visit.request.query_params.get("for", "").strip()[:LONGEST_WORD]
    kind, _, number = word.rpartition(":")
    if number.isdecimal() and len(number) <= 18 and kind.lower() in ("", "task", "job"):
        return Redirect(address=f"/{kind.lower() or 'task'}s/{int(number)}")
    pattern = word if "*" in word or "?" in word else f"*{word}*"
    return Redirect(address=f"/tasks?{urlencode({'name': pattern})}")


ROUTES: Sequence[Route] = (view("/tasks", tasks), view("/find", find))
