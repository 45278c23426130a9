"""Workflows, and the predecessors of tasks: tables and views."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Double,
    Index,
    String,
    Table,
    bindparam,
    distinct,
    func,
    select,
    true,
)

from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.records.chains import Predecessor, StageReuse
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.rules import chains
from pilotage.model.values.identity import Identity, Owners
from pilotage.store.database import bulk
from pilotage.store.database.columns import Id, id_column, is_of, metadata, owner_columns, text_column
from pilotage.store.database.engine import Database
from pilotage.store.database.keyset import ListOrder, ListPage
from pilotage.store.database.rows import among
from pilotage.store.files.table import files
from pilotage.store.jobs.table import job_inputs, jobs
from pilotage.store.reader import RecordReader
from pilotage.store.tasks import table as task_rows
from pilotage.store.tasks.table import TASK_VIEW, SpecCache, TaskView, tasks

workflows = Table(
    "workflows",
    metadata,
    id_column(),
    text_column("name"),
    *owner_columns(),
    Column("created", Double, nullable=False),
    # What became of the stages of one that was resumed, as JSON; empty: it was not.
    text_column("stages"),
    Index("workflows_by_owner", "vo", "owner", "id"),
)

predecessors = Table(
    "predecessors",
    metadata,
    Column("task", Id, primary_key=True),
    Column("reference", String, primary_key=True),
    Column("predecessor", Id, nullable=False),
    Index("predecessors_by_predecessor", "predecessor"),
)


@dataclass(frozen=True, slots=True)
class Stages:
    """What became of the stages of a resumed workflow."""

    stages: tuple[StageReuse, ...] = ()


_t, _p = tasks.c, predecessors.c
_OF_TASKS = (
    select(_p.task, _p.reference, _p.predecessor, _t.name, _t.state)
    .join(tasks, _t.id == _p.predecessor)
    .where(among(_p.task, "ids"))
    .order_by(_p.task, _p.predecessor, _p.reference)
)


def write_predecessors(connection: Connection, rows: Sequence[tuple[int, str, int]]) -> None:
    """Write the predecessors of tasks, as rows of task, reference and predecessor."""
    bulk.insert(connection, predecessors, ("task", "reference", "predecessor"), rows)


def write_workflow(
    connection: Connection,
    id_: int,
    name: str,
    owner: Mapping[str, str],
    time: float,
    stages: tuple[StageReuse, ...],
) -> None:
    """Write a workflow of an owner, with what became of its stages if it is resumed."""
    text = to_json(Stages(stages)).decode() if stages else ""
    row: dict[str, Any] = {"id": id_, "name": name, **owner, "created": time, "stages": text}
    bulk.insert(connection, workflows, tuple(row), [tuple(row.values())])


def predecessors_of(connection: Connection, ids: Iterable[int]) -> dict[int, list[Predecessor]]:
    """Return the predecessors of tasks, by task and then by number."""
    by_task: dict[int, list[Predecessor]] = defaultdict(list)
    numbers = sorted(set(ids))
    if numbers:
        for task, reference, number, name, state in connection.execute(_OF_TASKS, {"ids": numbers}):
            predecessor = Predecessor(reference=reference, task=number, name=name, state=TaskState(state))
            by_task[task].append(predecessor)
    return by_task


_w = workflows.c
_MINE = (_t.owner == bindparam("owner"), _t.vo == bindparam("vo"))
_NEWEST = select(_t.name, func.max(_t.id)).where(among(_t.name, "names"), *_MINE).group_by(_t.name)
_NUMBERED = select(_t.id).where(among(_t.id, "ids"), *_MINE)
_STATES = (
    select(_t.workflow, _t.state, func.count())
    .where(among(_t.workflow, "ids"), _t.workflow.is_not(None))
    .group_by(_t.workflow, _t.state)
)
# Tasks that read outputs of another task, also of one that ended long ago.
_READERS = (
    select(_t.id, _t.name, func.count(distinct(job_inputs.c.file)))
    .join(predecessors, _p.task == _t.id)
    .join(jobs, jobs.c.task == _t.id)
    .join(job_inputs, job_inputs.c.job == jobs.c.id)
    .join(files, files.c.name == job_inputs.c.file)
    .where(_p.predecessor == bindparam("task"), files.c.task == bindparam("task"))
    .group_by(_t.id, _t.name)
    .order_by(_t.id)
    .limit(bindparam("limit", type_=None))
)
_ON_END = select(_t.id).where(among(_t.id, "ids"), _t.on_end == true())
_NEWEST_FIRST = ListOrder(name="newest", id=_w.id)

MOST_BEFORE = 1000
"""Most predecessors to search for a task that blocks another one."""

LONGEST_NUMBER = 18
"""Most digits of a task's number: that many fit 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowView:
    """A workflow, with the number of its tasks in each state.

    ``stages`` has what became of the stages of one that was resumed.
    """

    id: int
    name: str
    owner: str
    vo: str
    created: float
    tasks: dict[TaskState, int]
    stages: tuple[StageReuse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView(TaskView):
    """A task of a workflow, and its predecessors. With ``on_end`` it starts also if these failed."""

    predecessors: tuple[Predecessor, ...]
    on_end: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderView:
    """A task that has made jobs which read outputs of another one."""

    id: int
    name: str
    files: int


class WorkflowQueries:
    """Reads workflows, each answer at one moment."""

    def __init__(self, database: Database, specs: SpecCache) -> None:
        self._database = database
        self._specs = specs

    def tasks_named(self, owner: Identity, words: Iterable[str]) -> dict[str, int]:
        """Return the numbers of an owner's tasks by these words, which are numbers or names.

        If several tasks have a name, return the newest.
        """
        unique = set(words)
        numbers = {word: int(word) for word in unique if word.isdecimal() and len(word) <= LONGEST_NUMBER}
        mine: dict[str, Any] = {"owner": owner.name, "vo": owner.vo}

        def read(connection: Connection) -> dict[str, int]:
            names = {"names": sorted(unique - numbers.keys()), **mine}
            by_name = {row[0]: int(row[1]) for row in connection.execute(_NEWEST, names)}
            existing = set(connection.execute(_NUMBERED, {"ids": sorted(numbers.values()), **mine}).scalars())
            return by_name | {word: number for word, number in numbers.items() if number in existing}

        return self._database.read(read) if unique else {}

    def workflows(self, owner: Owners, limit: int, after: str = "", name: str = "") -> ListPage[WorkflowView]:
        """Return workflows of some owners, newest first. Raises ``BadCursor``."""
        conditions = is_of(owner, _w.owner, _w.vo)
        conditions += [_w.name == name] if name else []
        counting = select(func.count()).select_from(workflows).where(*conditions)
        position = _NEWEST_FIRST.position(after)
        query = select(workflows).where(*conditions, *_NEWEST_FIRST.after(position))

        def read(connection: Connection) -> ListPage[WorkflowView]:
            total = connection.execute(counting).scalar_one()
            rows, following = _NEWEST_FIRST.read(connection, query, limit)
            return ListPage(_views(connection, rows), total, {}, following)

        return self._database.read(read)

    def workflow(self, number: int) -> WorkflowView | None:
        """Return one workflow."""
        query = select(workflows).where(_w.id == number)
        views = self._database.read(lambda connection: _views(connection, connection.execute(query).all()))
        return views[0] if views else None

    def stages(self, workflow: int) -> list[StageView]:
        """Return the tasks of a workflow by number, with their predecessors."""
        query = TASK_VIEW.add_columns(_t.on_end).where(_t.workflow == workflow, _t.workflow.is_not(None))

        def read(connection: Connection) -> list[StageView]:
            rows = connection.execute(query.order_by(_t.id)).all()
            before = predecessors_of(connection, (row.id for row in rows))
            counts: defaultdict[int, dict[JobState, int]] = defaultdict(dict)
            for count in RecordReader(connection, self._specs).task_counts([row.id for row in rows]):
                counts[count.task][count.state] = count.jobs
            return [
                StageView(
                    **task_rows.view_fields(row, counts[row.id]),
                    predecessors=tuple(before.get(row.id, ())),
                    on_end=bool(row.on_end),
                )
                for row in rows
            ]

        return self._database.read(read)

    def readers(self, task: int, limit: int) -> list[ReaderView]:
        """Return the tasks that come after a task and have read outputs of it."""
        rows = self._database.read(
            lambda connection: connection.execute(_READERS, {"task": task, "limit": limit}).all()
        )
        return [ReaderView(id=id_, name=name, files=count) for id_, name, count in rows]

    def is_on_end(self, task: int) -> bool:
        """Return whether a task starts even if its predecessors failed."""
        query = select(_t.on_end).where(_t.id == task)
        return bool(self._database.read(lambda connection: connection.execute(query).scalar()))

    def blocked_by(self, task: int) -> Predecessor | None:
        """Return an unfinished task that blocks this one, directly or through other waiting tasks."""

        def read(connection: Connection) -> Predecessor | None:
            visited, frontier = {task}, {task}
            while frontier and len(visited) <= MOST_BEFORE:
                before = predecessors_of(connection, frontier)
                goes_on = set(connection.execute(_ON_END, {"ids": sorted(frontier)}).scalars())
                for number, predecessors in sorted(before.items()):
                    if bad := chains.obstacles(predecessors, number in goes_on):
                        return bad[0]
                waiting = (predecessor for predecessors in before.values() for predecessor in predecessors)
                frontier = {
                    predecessor.task for predecessor in waiting if predecessor.state is TaskState.WAITING
                } - visited
                visited |= frontier
            return None

        return self._database.read(read)

    def predecessors(self, task: int) -> tuple[Predecessor, ...]:
        """Return the tasks that a task comes after."""
        return tuple(
            self._database.read(lambda connection: predecessors_of(connection, [task])).get(task, ())
        )


def _views(connection: Connection, rows: Sequence[Any]) -> list[WorkflowView]:
    states: defaultdict[int, dict[TaskState, int]] = defaultdict(dict)
    for workflow, state, count in connection.execute(_STATES, {"ids": [row.id for row in rows]}):
        states[workflow][TaskState(state)] = count
    return [
        WorkflowView(
            id=row.id,
            name=row.name,
            owner=row.owner,
            vo=row.vo,
            created=row.created,
            tasks=states[row.id],
            stages=from_json(Stages, row.stages).stages if row.stages else (),
        )
        for row in rows
    ]
