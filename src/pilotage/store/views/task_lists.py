"""Lists of tasks for people, in pages: rows, their total and the number in each state, read at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, func, select

from pilotage.model.records.states import TaskState
from pilotage.model.values.identity import Identity
from pilotage.store.database.columns import is_state
from pilotage.store.database.engine import Database
from pilotage.store.tables import tasks as task_rows
from pilotage.store.tables.tasks import TASK_VIEW, TaskView, tasks

from . import task_filters
from .job_counts import of_tasks
from .task_filters import EVERY_TASK, TaskFilter

_t = tasks.c

TaskSort = Literal["newest", "changed", "priority", "name"]
"""What tasks are sorted by: numbers and times from the largest down, names upwards, then the newest first."""

_COLUMNS: dict[TaskSort, ColumnElement[Any]] = {
    "changed": _t.since,
    "priority": _t.priority,
    "name": _t.name,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """Which tasks are listed: an owner's (none: everybody's), filtered, sorted, after the task ``after``."""

    owner: Identity | None = None
    wanted: TaskFilter = EVERY_TASK
    state: TaskState | None = None
    sort: TaskSort = "newest"
    limit: int = 50
    after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTasks:
    """A page of tasks. ``total`` counts those of all pages, ``counts`` also those in other states."""

    tasks: list[TaskView]
    total: int
    counts: Mapping[TaskState, int]


class TaskLists:
    """Reads lists of tasks. Nothing here changes anything."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, page: TaskPage) -> ListedTasks:
        """Return one page, with total and counts."""
        conditions = [*task_filters.conditions(page.wanted, self._database.is_postgresql)]
        if page.owner is not None:
            conditions += [_t.owner == page.owner.name, _t.vo == page.owner.vo]
        counting = select(_t.state, func.count()).where(*conditions).group_by(_t.state)
        query = TASK_VIEW.where(*conditions, *_of_page(page)).order_by(*_order(page.sort)).limit(page.limit)

        def read(connection: Connection) -> ListedTasks:
            counts = {TaskState(state): int(many) for state, many in connection.execute(counting)}
            found = connection.execute(query).all()
            jobs = of_tasks(connection, [str(row.id) for row in found])
            return ListedTasks(
                tasks=[TaskView(**task_rows.shown(row, jobs.get(str(row.id), {}))) for row in found],
                total=sum(counts.values()) if page.state is None else counts.get(page.state, 0),
                counts={state: counts[state] for state in TaskState if state in counts},
            )

        return self._database.read(read)


def _of_page(page: TaskPage) -> list[ColumnElement[bool]]:
    conditions = [] if page.state is None else [is_state(tasks, page.state)]
    if not page.after:
        return conditions
    if page.sort == "newest":
        return [*conditions, _t.id < page.after]
    column = _COLUMNS[page.sort]
    other = tasks.alias()
    last = select(other.c[str(column.key)]).where(other.c.id == page.after).scalar_subquery()
    beyond = column > last if page.sort == "name" else column < last
    return [*conditions, beyond | ((column == last) & (_t.id < page.after))]


def _order(sort: TaskSort) -> list[ColumnElement[Any]]:
    if sort == "newest":
        return [_t.id.desc()]
    column = _COLUMNS[sort]
    return [column if sort == "name" else column.desc(), _t.id.desc()]
