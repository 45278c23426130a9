"""Workflows, which are tasks that were submitted together, and which tasks come after which."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Double, Index, String, Table, select

from pilotage.model.records.chains import Predecessor
from pilotage.model.records.states import TaskState
from pilotage.store.database import bulk
from pilotage.store.database.columns import Id, id_column, metadata, owner_columns, text_column
from pilotage.store.database.rows import among
from pilotage.store.tables.tasks import tasks

workflows = Table(
    "workflows",
    metadata,
    id_column(),
    text_column("name"),
    *owner_columns(),
    Column("created", Double, nullable=False),
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

_t, _p = tasks.c, predecessors.c
_OF_TASKS = (
    select(_p.task, _p.reference, _p.predecessor, _t.name, _t.state)
    .join(tasks, _t.id == _p.predecessor)
    .where(among(_p.task, "ids"))
    .order_by(_p.task, _p.predecessor, _p.reference)
)


def write_predecessors(connection: Connection, rows: Sequence[tuple[int, str, int]]) -> None:
    """Write which tasks come after which, each by task, reference and predecessor."""
    bulk.insert(connection, predecessors, ("task", "reference", "predecessor"), rows)


def write_workflow(
    connection: Connection, id_: int, name: str, owner: Mapping[str, str], time: float
) -> None:
    """Write a workflow of an owner."""
    row: dict[str, Any] = {"id": id_, "name": name, **owner, "created": time}
    bulk.insert(connection, workflows, tuple(row), [tuple(row.values())])


def predecessors_of(connection: Connection, ids: Iterable[int]) -> dict[int, list[Predecessor]]:
    """Return the predecessors of tasks, by task and then by number."""
    found: dict[int, list[Predecessor]] = defaultdict(list)
    wanted = sorted(set(ids))
    if wanted:
        for task, reference, number, name, state in connection.execute(_OF_TASKS, {"ids": wanted}):
            one = Predecessor(reference=reference, task=number, name=name, state=TaskState(state))
            found[task].append(one)
    return found
