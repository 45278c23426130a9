"""Tasks: their table, their parsed specifications, views, and each person's amount of work."""

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from cachetools import LRUCache
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    String,
    Table,
    Text,
    bindparam,
    func,
    literal_column,
    select,
)

from pilotage.model.documents.decision import WorkLimit
from pilotage.model.documents.remarks import Remark
from pilotage.model.documents.serialization import from_json
from pilotage.model.records.job_changes import ChangeNote, notes
from pilotage.model.records.life import Life
from pilotage.model.records.spec import LiveWork
from pilotage.model.records.states import ENDED, LIVE_TASKS, JobState, TaskState
from pilotage.model.records.work import Measured, Task, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.store.database import bulk
from pilotage.store.database.columns import Id, has_state, is_state, metadata, partial_index, text_column
from pilotage.store.database.dialects import Dialect, Worded
from pilotage.store.database.engine import Database
from pilotage.store.database.record_columns import SETTABLE, maker, read_columns, record_table
from pilotage.store.database.rows import among, raw_rows

log = logging.getLogger(__name__)

tasks = record_table(
    "tasks",
    Task,
    text_column("name"),
    Column("share", String, nullable=False, server_default="", info=SETTABLE),
    Column("priority", Integer, nullable=False, info=SETTABLE),
    Column("spec", Text, nullable=False, info=SETTABLE),
    Column("submission", String),
    Column("planned_jobs", Integer, server_default="0", nullable=False, info=SETTABLE),
    Column("input_files", Integer, server_default="0", nullable=False, info=SETTABLE),
    Column("lease_end", Double, info=SETTABLE),
    text_column("datasets"),
    Column("output_dataset", String),
    text_column("labels"),
    Column("workflow", Id),
    Index("tasks_by_state", "state", "id"),
    Index("tasks_by_owner", "vo", "owner", "id"),
    Index("tasks_by_submission", "submission", unique=True),
)

_t = tasks.c

is_live = is_state(tasks, *LIVE_TASKS)

# The index has no ended tasks, because their number grows without end, and no specifications, because adding
# up jobs needs none. Include the state: SQLite reads the row for any column that the index lacks.
partial_index("tasks_live", _t.vo, _t.owner, _t.planned_jobs, _t.input_files, _t.state, condition=is_live)

partial_index("tasks_by_lease", _t.lease_end, condition=_t.lease_end.is_not(None))

partial_index(
    "tasks_by_output_dataset",
    _t.output_dataset,
    condition=_t.output_dataset.is_not(None) & is_live,
    unique=True,
)

partial_index("tasks_by_workflow", _t.workflow, _t.id, condition=_t.workflow.is_not(None))

is_to_notify = _t.notices != literal_column("''")

partial_index("tasks_to_notify", _t.vo, _t.owner, _t.id, condition=is_to_notify)

TASK_COLUMNS = read_columns(tasks, Task)
task = maker(Task, "spec")
"""Makes a task of a row of ``TASK_COLUMNS`` and its specification."""
_SPECS = select(_t.id, _t.spec).where(among(_t.id, "ids"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView(Life):
    """A task, with the number of its jobs in each state, and of its workflow, if it belongs to one."""

    name: str
    state: TaskState
    owner: str
    vo: str
    share: str
    priority: int
    held: str
    labels: Mapping[str, str]
    jobs: Mapping[JobState, int]
    workflow: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDetails(TaskView):
    """A task with its specification, and the needs that its scouts measured.

    ``changes`` records the changes of its jobs, and who made them. ``datasets`` are the versions of its
    inputs. ``remarks`` explain why it waits, the next steps, and the state of registering its outputs.
    """

    spec: TaskSpec
    measured: Measured | None
    changes: tuple[ChangeNote, ...] = ()
    datasets: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()


class SpecCache:
    """Parsed task specifications by task. Each is read once: it does not change once all inputs are files."""

    def __init__(self, size: int = 4096) -> None:
        self._cache: LRUCache[int, TaskSpec] = LRUCache(size)
        self._lock = threading.Lock()

    def of(self, connection: Connection, ids: Iterable[int]) -> dict[int, TaskSpec]:
        """Return the specifications of these tasks. Log and skip tasks that cannot be parsed."""
        specs: dict[int, TaskSpec] = {}
        missing: list[int] = []
        with self._lock:
            for id_ in ids:
                if (spec := self._cache.get(id_)) is not None:
                    specs[id_] = spec
                else:
                    missing.append(id_)
        if missing:
            read = _readable(dict(tuple(row) for row in connection.execute(_SPECS, {"ids": missing})))
            specs |= read
            self._keep(read)
        return specs

    def parsed(self, texts: Mapping[int, str | None]) -> dict[int, TaskSpec] | None:
        """Parse these texts, by task. Use the cache if a text is None; return None if it lacks the task."""
        with self._lock:
            specs = {id_: self._cache[id_] for id_ in texts if id_ in self._cache}
        if len(specs) == len(texts):
            return specs
        missing = {id_: texts[id_] for id_ in texts.keys() - specs.keys()}
        read = _readable({id_: text for id_, text in missing.items() if text is not None})
        self._keep(read)
        return specs | read if len(read) == len(missing) else None

    def _keep(self, read: Mapping[int, TaskSpec]) -> None:
        with self._lock:
            self._cache.update((id_, spec) for id_, spec in read.items() if spec.is_resolved)


def _readable(texts: Mapping[int, str]) -> dict[int, TaskSpec]:
    """Return the valid specifications, so that an invalid one does not block other tasks."""
    read: dict[int, TaskSpec] = {}
    for id_, text in texts.items():
        try:
            read[id_] = from_json(TaskSpec, text)
        except ValueError:
            log.exception(
                "task %d: its stored specification cannot be read, and the task is left out",
                id_,
                extra={"task": id_},
            )
    return read


def measurement(text: str | None) -> Measured | None:
    """Return the needs that a task's scouts measured; None before that."""
    return None if text is None else from_json(Measured, text)


_SHOWN = tuple(field.name for field in fields(TaskView) if field.name in _t)
TASK_VIEW = select(*(_t[name] for name in _SHOWN))


def view_fields(row: Any, jobs: Mapping[JobState, int]) -> dict[str, Any]:
    """Return the fields of a ``TaskView`` from a row that begins as ``TASK_VIEW`` and its jobs by
    state."""
    values = dict(zip(_SHOWN, row, strict=False))
    return {**values, "labels": labels_of(row.labels), "state": TaskState(row.state), "jobs": jobs}


def labels_text(labels: Mapping[str, str]) -> str:
    """Return labels in the form of the column: a line each, with a line end before and after it."""
    return "".join(f"\n{name}={value}" for name, value in labels.items()) + "\n" if labels else ""


def labels_of(text: str) -> dict[str, str]:
    """Return the labels of a text."""
    return {name: value for name, _, value in (line.partition("=") for line in text.split("\n") if line)}


def view_fields_alone(row: Any) -> dict[str, Any]:
    """Return the further fields of ``TaskDetails`` from its row."""
    measured, changes = measurement(row.measured), notes(row.change_notes)
    return {"measured": measured, "changes": changes, "datasets": tuple(row.datasets.split())}


LIVE_WORK = (
    select(_t.owner, func.count(), func.sum(_t.planned_jobs), func.sum(_t.input_files))
    .where(is_live, _t.vo == bindparam("vo"))
    .group_by(_t.owner)
)
"""A VO's unfinished tasks with their jobs and files, by owner."""
_OF_ENDED = select(_t.planned_jobs, _t.input_files).where(
    among(_t.id, "tasks"), has_state(tasks, *ENDED["task"])
)


def live_work(connection: Connection, vo: str) -> dict[str, LiveWork]:
    """Return the unfinished work of a VO's tasks, by owner."""
    rows = connection.execute(LIVE_WORK, {"vo": vo})
    return {
        owner: LiveWork(tasks=live, jobs=int(jobs), files=int(files)) for owner, live, jobs, files in rows
    }


def planned_jobs(connection: Connection, vo: str) -> Counter[str]:
    """Return the jobs of a VO's unfinished tasks, made or not, by owner. This reads no job."""
    return Counter({owner: int(jobs) for owner, _, jobs, _ in raw_rows(connection, LIVE_WORK, vo=vo)})


def has_room(connection: Connection, limits: Sequence[WorkLimit], added: Iterable[LiveWork]) -> bool:
    """Return whether more work fits all limits. The caller is the only writer, so the answer stays true."""
    new = LiveWork.total(added)
    live = {vo: live_work(connection, vo) for vo in {limit.vo for limit in limits}}
    for limit in limits:
        by_owner = live[limit.vo]
        work = by_owner.values() if limit.owner is None else [by_owner.get(limit.owner, LiveWork())]
        if not LiveWork.total((*work, new)).is_within(limit.most):
            return False
    return True


def ended_work(connection: Connection, ids: Iterable[int]) -> list[LiveWork]:
    """Return the work of the ended ones among these tasks."""
    rows = connection.execute(_OF_ENDED, {"tasks": sorted(ids)})
    return [LiveWork(tasks=1, jobs=jobs, files=files) for jobs, files in rows]


task_volumes = Table(
    "task_volumes",
    metadata,
    Column("vo", String, primary_key=True),
    Column("owner", String, primary_key=True),
    Column("stored", BigInteger, nullable=False),
)

_v = task_volumes.c
_KEY = ("vo", "owner")


class _ByteLength(Worded):
    """The bytes of a text."""

    def words(self, dialect: Dialect, *parts: str) -> str:
        return dialect.byte_length.format(*parts)


_STORED = (
    select(_t.vo, _t.owner, func.sum(_ByteLength(_t.spec)))
    .where(among(_t.id, "ids"))
    .group_by(_t.vo, _t.owner)
)


def add_volumes(connection: Connection, bytes_: Mapping[tuple[str, str], int]) -> None:
    """Add bytes (negative: subtract) to the volumes of these VOs and owners."""
    rows = [(*person, stored) for person, stored in bytes_.items() if stored]
    bulk.add(connection, task_volumes, _KEY, "stored", rows)


def change_volumes(connection: Connection, ids: Iterable[int], spec: str) -> None:
    """Update volumes for tasks that get this specification instead of their present one."""
    for id_ in ids:
        before = volumes_of(connection, [id_])
        add_volumes(connection, {person: len(spec.encode()) - stored for person, stored in before.items()})


def volumes_of(connection: Connection, ids: Iterable[int]) -> Counter[tuple[str, str]]:
    """Return the bytes that some tasks take, by VO and owner."""
    rows = connection.execute(_STORED, {"ids": list(ids)})
    return Counter({(vo, owner): int(stored) for vo, owner, stored in rows})


def volume_of(database: Database, owner: Identity) -> int:
    """Return the bytes that a person's tasks take."""
    query = select(_v.stored).where(_v.vo == owner.vo, _v.owner == owner.name)
    return database.read(lambda connection: connection.execute(query).scalar() or 0)
