"""Results of tasks: the outputs of finished jobs, or of their merge."""

from sqlalchemy import Connection, bindparam, select

from pilotage.model.records.data import File
from pilotage.model.records.states import JobState
from pilotage.store.database.columns import has_state
from pilotage.store.tables.files import files
from pilotage.store.tables.jobs import jobs

_f, _j = files.c, jobs.c
_OF_TASK = (
    select(_f.name, _f.size, _f.checksum, _j.kind)
    .join(jobs, _j.id == _f.job)
    .where(_f.task == bindparam("task"), _f.task.is_not(None), has_state(jobs, JobState.FINISHED))
    .order_by(_f.name)
)
_MERGED = _OF_TASK.where(_j.kind == "merge")


def results(connection: Connection, task: int, limit: int | None = None) -> list[File]:
    """Return the outputs of a task's successful jobs, at most ``limit``; only the merge job's if there was
    one."""
    rows = connection.execute(_MERGED.limit(limit), {"task": task}).all()
    rows = rows or connection.execute(_OF_TASK.limit(limit), {"task": task}).all()
    return [File(name=name, size=size, checksum=checksum) for name, size, checksum, _ in rows]
