"""Lists of tasks for people, in pages: filtered rows, their total and the number in each state."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import ColumnElement, Connection, String, and_, cast, exists, func, not_, or_, select

from pilotage.model.records.counters import JOBS_BY_TASK
from pilotage.model.records.states import LIVE_JOBS, LIVE_TASKS, JobState, TaskState
from pilotage.model.rules.plain_states import ENDS, TASK_STATES, PlainWord, engine_states
from pilotage.model.values.identity import Owners
from pilotage.store.database.columns import is_of, is_state
from pilotage.store.database.dialects import Dialect
from pilotage.store.database.engine import Database
from pilotage.store.database.keyset import ListOrder, ListPage, total_of
from pilotage.store.jobs.counters import counts as counters
from pilotage.store.jobs.job_counts import of_query, of_tasks
from pilotage.store.jobs.table import jobs
from pilotage.store.tasks import table as task_rows
from pilotage.store.tasks.table import TASK_VIEW, TaskView, tasks

_t, _j = tasks.c, jobs.c


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Conditions that a listed task meets, all of them. Empty ones hold for every task."""

    name: str = ""
    """Its name, with ``*`` for any characters and ``?`` for one."""
    owner: str = ""
    """The name of its owner, in any VO."""
    vo: str = ""
    """The VO of its owner."""
    labels: tuple[str, ...] = ()
    """Labels that it has, all of them: ``NAME=TEXT``, or ``NAME`` with any text."""
    queues: tuple[str, ...] | None = None
    """One of its jobs that has not ended well is at one of these queues; none: no condition."""


EVERY_TASK = TaskFilter()


def conditions_of(task_filter: TaskFilter, dialect: Dialect) -> Iterator[ColumnElement[bool]]:
    """Yield the filter as conditions on rows of tasks."""
    if task_filter.name:
        operator, pattern = dialect.matches(task_filter.name)
        yield _t.name.op(operator, is_comparison=True)(pattern)
    if task_filter.owner:
        yield _t.owner == task_filter.owner
    if task_filter.vo:
        yield _t.vo == task_filter.vo
    for label in task_filter.labels:
        name, equals, value = label.partition("=")
        # LIKE of SQLite ignores case, and texts of labels may contain its signs.
        find = getattr(func, dialect.find)
        yield find(_t.labels, f"\n{name}={value}\n" if equals else f"\n{name}=") > 0
    if task_filter.queues is not None:
        open_ = is_state(jobs, *LIVE_JOBS, JobState.FAILED)
        # Search task by task, with the index of jobs: a list of all such jobs would read the whole table.
        yield exists().where(_j.task == _t.id, _j.queue.in_(task_filter.queues), open_).correlate(tasks)


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
    """The tasks to list: those of some owners, filtered and sorted.

    With ``only``, list these tasks alone, of any owner. ``after`` is the cursor of the page; empty for the
    first one.
    """

    owner: Owners = None
    only: Sequence[int] | None = None
    task_filter: TaskFilter = EVERY_TASK
    state: TaskState | None = None
    word: PlainWord | None = None
    """What people see of them; none: anything."""
    sort: TaskSort = "newest"
    limit: int = 50
    after: str = ""


def _of_word(word: PlainWord) -> list[ColumnElement[bool]]:
    """Return the conditions for tasks with a word, as ``task_state`` finds it."""
    if word in ENDS:
        return [is_state(tasks, *(state for state in TaskState if TASK_STATES[state].word == word))]
    runs = _has_job(PlainWord.RUNNING)
    waits = or_(
        _t.held != "",
        _has_job(PlainWord.WAITING),
        is_state(tasks, *(state for state in LIVE_TASKS if state not in _MAY_FINISH)),
    )
    live = is_state(tasks, *LIVE_TASKS)
    if word is PlainWord.RUNNING:
        return [live, runs]
    if word is PlainWord.WAITING:
        return [live, not_(runs), or_(waits, and_(_t.state == TaskState.RUNNING.value, not_(_has_job())))]
    return [live, not_(runs), not_(waits), or_(_t.state == TaskState.MERGING.value, _has_job())]


_MAY_FINISH = (TaskState.RUNNING, TaskState.MERGING)


def _has_job(word: PlainWord | None = None) -> ColumnElement[bool]:
    """Return the condition that a task has a job with a word, or any job."""
    states = engine_states(word) if word else tuple(JobState)
    number = (
        select(func.coalesce(func.sum(counters.c.count), 0))
        .where(counters.c.counter == JOBS_BY_TASK, counters.c.first == cast(_t.id, String))
        .where(counters.c.state.in_([str(state) for state in states]))
        .correlate(tasks)
    )
    return number.scalar_subquery() > 0


class TaskLists:
    """Reads lists of tasks. Nothing here changes anything."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, page: TaskPage) -> ListPage[TaskView]:
        """Return one page, with total and counts. Raises ``BadCursor``."""
        conditions = [*conditions_of(page.task_filter, self._database.dialect)]
        if page.only is not None:
            conditions.append(_t.id.in_(page.only))
        else:
            conditions += is_of(page.owner, _t.owner, _t.vo)
        of_word = _of_word(page.word) if page.word else []
        total = select(func.count()).select_from(tasks).where(*conditions, *of_word)
        counting = select(_t.state, func.count()).where(*conditions).group_by(_t.state)
        order = ORDERS[page.sort]
        conditions += order.after(order.position(page.after))
        conditions += [] if page.state is None else [is_state(tasks, page.state)]
        conditions += of_word
        query = TASK_VIEW.add_columns(*order.values()).where(*conditions)

        def read(connection: Connection) -> ListPage[TaskView]:
            counts = of_query(connection, counting, TaskState)
            rows, following = order.read(connection, query, page.limit)
            jobs = of_tasks(connection, [str(row.id) for row in rows])
            return ListPage(
                [TaskView(**task_rows.view_fields(row, jobs.get(str(row.id), {}))) for row in rows],
                (connection.scalar(total) or 0) if page.word else total_of(counts, page.state),
                counts,
                following,
            )

        return self._database.read(read)
