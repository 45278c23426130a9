"""What a workflow that is submitted again finds of earlier ones: their tasks, with what these made."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import zip_longest
from typing import Any

from sqlalchemy import Connection, bindparam, case, func, select

from pilotage.model.records.chains import EarlierTask, NewStage, ResumedWorkflow, StageReuse
from pilotage.model.records.inputs import InputFile
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.values.identity import Identity
from pilotage.store.database.columns import is_state
from pilotage.store.database.engine import Database
from pilotage.store.database.errors import StagesChanged
from pilotage.store.database.rows import among
from pilotage.store.files.table import files, replicas
from pilotage.store.jobs.table import jobs
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.stages import OUTPUTS_AT_ONCE, outputs_of
from pilotage.store.tasks.table import SpecCache, tasks
from pilotage.store.tasks.workflows import workflows

MOST_CANDIDATES = 3
"""Most earlier tasks that a stage is compared with: the newest ones."""

MOST_ROWS = 2000
"""Most tasks of earlier workflows of a name that are considered."""

_t, _w, _j, _f = tasks.c, workflows.c, jobs.c, files.c
_EARLIER = (
    select(_t.id, _t.name)
    .join(workflows, _w.id == _t.workflow)
    .where(_w.vo == bindparam("vo"), _w.owner == bindparam("owner"), _w.name == bindparam("workflow"))
    .where(among(_t.name, "names"), _t.workflow.is_not(None))
    .order_by(_t.id.desc())
    .limit(MOST_ROWS)
)
_HEADS = select(_t.id, _t.name, _t.state, _t.finishing).where(among(_t.id, "ids"))
_FINISHED = (
    select(_t.id)
    .where(among(_t.id, "ids"), is_state(tasks, TaskState.FINISHED))
    .order_by(_t.id)
    .with_for_update()
)
_is_there = select(replicas.c.file).where(replicas.c.file == _f.name).exists()
_MADE = (
    select(
        _j.kind,
        func.count(_f.name).label("made"),
        func.coalesce(func.sum(case((_is_there, 1), else_=0)), 0).label("there"),
    )
    .outerjoin(files, (_f.job == _j.id) & _f.job.is_not(None))
    .where(_j.task == bindparam("task"), is_state(jobs, JobState.FINISHED))
    .group_by(_j.id, _j.kind)
    .subquery()
)
_m = _MADE.c
_INCOMPLETE = (
    select(_m.kind == "merge", func.count())
    .where(
        (_m.there < _m.made)
        | (_m.there < case((_m.kind == "merge", bindparam("merged")), else_=bindparam("normal")))
    )
    .group_by(_m.kind == "merge")
)


def candidates_of(
    connection: Connection, owner: Identity, workflow: str, names: Collection[str]
) -> dict[str, list[int]]:
    """Return by name the numbers of an owner's newest tasks in workflows of a name, newest first."""
    values = {"owner": owner.name, "vo": owner.vo, "workflow": workflow, "names": sorted(names)}
    by_name: dict[str, list[int]] = defaultdict(list)
    for number, name in connection.execute(_EARLIER, values):
        if len(by_name[name]) < MOST_CANDIDATES:
            by_name[name].append(number)
    return by_name


def newest_first(candidates: Iterable[list[int]]) -> list[int]:
    """Return the newest candidate of each name, then the second ones, and so on."""
    return [number for row in zip_longest(*candidates) for number in row if number is not None]


def earlier_tasks(
    connection: Connection, specs: SpecCache, numbers: Iterable[int], read: Collection[str] | None
) -> Mapping[int, EarlierTask]:
    """Return tasks by number. Those of the names ``read``, or all for None, have their outputs; stop after
    too many."""
    ids, found, outputs = list(numbers), dict[int, EarlierTask](), 0
    rows = {row.id: row for row in connection.execute(_HEADS, {"ids": ids})}
    known, reader = specs.of(connection, ids), RecordReader(connection, specs)
    for number in ids:
        if number not in rows or number not in known or outputs > OUTPUTS_AT_ONCE:
            continue
        row, spec = rows[number], known[number]
        is_finished = row.state == TaskState.FINISHED
        made = outputs_of(reader, number) if is_finished and (read is None or row.name in read) else ()
        outputs += len(made)
        found[number] = EarlierTask(
            task=number,
            name=row.name,
            state=TaskState(row.state),
            spec=spec,
            is_partial=bool(row.finishing),
            outputs=made,
            incomplete_jobs=_incomplete(connection, number, spec) if is_finished else 0,
        )
    return found


def refuse_changed(connection: Connection, stages: Iterable[StageReuse]) -> None:
    """Raise ``StagesChanged`` if a task that stands for a stage is gone, and lock these tasks."""
    ids = sorted({stage.task for stage in stages if stage.is_skipped and stage.task is not None})
    if ids and len(connection.execute(_FINISHED, {"ids": ids}).all()) < len(ids):
        raise StagesChanged


def _incomplete(connection: Connection, task: int, spec: Any) -> int:
    """Return how many finished jobs have lost outputs: of merge jobs, if there are any."""
    needed = len(set(spec.outputs) - set(spec.optional_outputs))
    merged = len(set(spec.merge.outputs)) if spec.merge else 0
    values = {"task": task, "normal": needed, "merged": merged}
    counts = {bool(is_merge): int(count) for is_merge, count in connection.execute(_INCOMPLETE, values)}
    return counts.get(spec.merge is not None, 0)


class ResumptionQueries:
    """Reads what a workflow finds of earlier ones, at one moment."""

    def __init__(self, database: Database, specs: SpecCache) -> None:
        self._database = database
        self._specs = specs

    def read(
        self, owner: Identity, name: str, stages: tuple[NewStage, ...], read: Collection[str]
    ) -> ResumedWorkflow:
        """Return stages with the owner's earlier tasks. Tasks of the names ``read`` have their outputs."""
        others = {number for stage in stages for number in stage.earlier.values()}

        def run(connection: Connection) -> ResumedWorkflow:
            by_name = candidates_of(connection, owner, name, {stage.spec.name for stage in stages})
            outside = earlier_tasks(connection, self._specs, sorted(others), None)
            found = earlier_tasks(connection, self._specs, newest_first(by_name.values()), read)
            candidates = {
                name: tuple(found[number] for number in numbers if number in found)
                for name, numbers in by_name.items()
            }
            return ResumedWorkflow(stages=stages, candidates=candidates, others=outside)

        return self._database.read(run)

    def outputs(self, task: int) -> tuple[InputFile, ...]:
        """Return the results of a task."""
        return self._database.read(lambda connection: outputs_of(RecordReader(connection, self._specs), task))
