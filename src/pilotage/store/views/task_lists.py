"""Lists of tasks for people, in pages: rows, their total and the number in each state, read at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, func, select

from pilotage.model.records.states import TaskState
from pilotage.model.values.identity import Identity
from pilotage.store.database.columns import is_state
from pilotage.store.database.engine import Database
from pilotage.store.tables import tasks as task_rows
from pilotage.store.tables.tasks import TASK_VIEW, TaskView, tasks
from pilotage.store.views import task_filters
from pilotage.store.views.job_counts import of_query, of_tasks
from pilotage.store.views.keyset import ListOrder, ListPage, total_of
from pilotage.store.views.task_filters import EVERY_TASK, TaskFilter

_t = tasks.c

TaskSort = Literal["newest", "changed", "priority", "name"]
"""What tasks are sorted by: numbers and times from the largest down, names upwards, then the newest first."""

ORDERS: Mapping[TaskSort, ListOrder] = {
    "newest": ListOrder(name="newest", id=_t.id),
    "changed": ListOrder(name="changed", id=_t.id, key=_t.since),
    "priority": ListOrder(name="priority", id=_t.id, key=_t.priority),
    "name": ListOrder(name="name", id=_t.id, key=_t.name, is_key_descending=False, is_text=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """Which tasks are listed: an owner's, by name and VO (none: everybody's), filtered and sorted.

    ``after`` is the cursor of the page; empty for the first one.
    """

    owner: Identity | None = None
    wanted: TaskFilter = EVERY_TASK
    state: TaskState | None = None
    sort: TaskSort = "newest"
    limit: int = 50
    after: str = ""


class TaskLists:
    """Reads lists of tasks. Nothing here changes anything."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, page: TaskPage) -> ListPage[TaskView]:
        """Return one page, with total and counts. Raises ``BadCursor``."""
        conditions = [*task_filters.conditions(page.wanted, self._database.dialect)]
        if page.owner is not None:
            conditions += [_t.owner == page.owner.name, _t.vo == page.owner.vo]
        counting = select(_t.state, func.count()).where(*conditions).group_by(_t.state)
        order = ORDERS[page.sort]
        conditions += order.after(order.position(page.after))
        conditions += [] if page.state is None else [is_state(tasks, page.state)]
        query = TASK_VIEW.add_columns(*order.values()).where(*conditions)

        def read(connection: Connection) -> ListPage[TaskView]:
            counts = of_query(connection, counting, TaskState)
            found, following = order.read(connection, query, page.limit)
            jobs = of_tasks(connection, [str(row.id) for row in found])
            return ListPage(
                [TaskView(**task_rows.shown(row, jobs.get(str(row.id), {}))) for row in found],
                total_of(counts, page.state),
                counts,
                following,
            )

        return self._database.read(read)
