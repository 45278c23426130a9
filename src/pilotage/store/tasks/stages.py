"""Tasks that wait for other tasks: all, or only tasks that need a decision."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, false, or_, select

from pilotage.model.records.chains import MOST_MATCHED, Predecessor, Stage
from pilotage.model.records.inputs import InputFile, TaskOutputs
from pilotage.model.records.spec import LiveWork
from pilotage.model.records.states import LIVE_TASKS, TaskState
from pilotage.model.records.work import Task
from pilotage.model.rules import chains
from pilotage.model.values.paths import is_copy
from pilotage.model.values.scopes import split_identifier
from pilotage.store.database.columns import has_state, is_state
from pilotage.store.database.rows import among
from pilotage.store.files.table import results
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import TASK_COLUMNS, live_work, tasks
from pilotage.store.tasks.workflows import predecessors, predecessors_of
from pilotage.store.worlds.parts import Reading, part

OUTPUTS_AT_ONCE = 2 * MOST_MATCHED
"""Outputs after which a pass reads no further tasks. The next pass follows immediately."""

_t, _p, _before = tasks.c, predecessors.c, tasks.alias("before")
_LIMIT: Any = bindparam("limit", type_=None)


def _has_one(*states: TaskState) -> ColumnElement[bool]:
    """Return the condition that any predecessor is in one of these states."""
    joined = select(_p.task).join(_before, _before.c.id == _p.predecessor)
    return joined.where(_p.task == _t.id, has_state(_before, *states)).correlate(tasks).exists()


_BLOCKED = and_(_t.on_end == false(), _has_one(TaskState.FAILED, TaskState.CANCELLED))
_TO_DECIDE = or_(
    and_(_BLOCKED, _t.error == ""),
    and_(~_BLOCKED, _t.error != ""),
    and_(~_BLOCKED, ~_has_one(*LIVE_TASKS)),
)
_READY = (
    select(*TASK_COLUMNS)
    .where(is_state(tasks, TaskState.WAITING), _t.held == "", ~among(_t.id, "apart"), _TO_DECIDE)
    .order_by(_t.since, _t.id)
    .limit(_LIMIT)
)


@part("tasks", "stages")
def ready_stages(reading: Reading) -> Mapping[str, Any]:
    """Read waiting tasks if all predecessors have ended, or if one began or ceased to block them."""
    tasks = reading.reader.tasks_from(_READY, limit=reading.now.batch, apart=reading.now.apart)
    stages = list(_stages(reading.reader, tasks))
    read = {stage.task for stage in stages}
    return {"tasks": tuple(task for task in tasks if task.id in read), "stages": tuple(stages)}


@part("stages")
def every_stage(reading: Reading) -> Mapping[str, Any]:
    """Read the predecessors of all waiting tasks, with the outputs of ended ones."""
    waiting = [task for task in reading["tasks"] if task.state is TaskState.WAITING]
    return {"stages": tuple(_stages(reading.reader, waiting))}


def _stages(reader: RecordReader, tasks: Sequence[Task]) -> Iterable[Stage]:
    """Yield the stages of tasks. Stop after too many outputs."""
    before = predecessors_of(reader.connection, (task.id for task in tasks))
    work = {vo: live_work(reader.connection, vo) for vo in {task.owner.vo for task in tasks}}
    outputs = 0
    for task in tasks:
        predecessors = before.get(task.id, [])
        if not chains.awaited(predecessors) and not chains.obstacles(predecessors, task.on_end):
            predecessors = _with_outputs(reader, task, predecessors)
        outputs += sum(len(predecessor.outputs) for predecessor in predecessors)
        of_vo = work[task.owner.vo]
        yield Stage(
            task=task.id,
            predecessors=tuple(predecessors),
            user=of_vo.get(task.owner.name, LiveWork()),
            vo=LiveWork.total(of_vo.values()),
        )
        if outputs >= OUTPUTS_AT_ONCE:
            return


def _with_outputs(reader: RecordReader, task: Task, before: Sequence[Predecessor]) -> list[Predecessor]:
    references = {str(item.task) for item in task.spec.inputs if isinstance(item, TaskOutputs)}
    return [
        replace(predecessor, outputs=outputs_of(reader, predecessor.task))
        if predecessor.reference in references
        else predecessor
        for predecessor in before
    ]


def outputs_of(reader: RecordReader, task: int) -> tuple[InputFile, ...]:
    """Return the results of a task with the storages that have originals: where they were delivered."""
    files = results(reader.connection, task, MOST_MATCHED + 1)
    storages: defaultdict[str, list[str]] = defaultdict(list)
    for replica in reader.replicas_of(files):
        if not is_copy(replica.path):
            storages[replica.file].append(replica.storage)
    inputs = []
    for file in files:
        scope, name = split_identifier(file.name)
        replicas = tuple(storages[file.name])
        inputs.append(
            InputFile(name=name, scope=scope, size=file.size, checksum=file.checksum, replicas=replicas)
        )
    return tuple(inputs)
