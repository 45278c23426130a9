"""Wanted files: a live job reads them, a task will read them, or a transfer moves them."""

from collections.abc import Sequence

from sqlalchemy import bindparam, select

from pilotage.model.records.states import LIVE_JOBS, LIVE_TRANSFERS, TaskState
from pilotage.model.records.work import InputFile
from pilotage.store.database.columns import has_state, is_state
from pilotage.store.database.rows import among
from pilotage.store.tables.jobs import job_inputs, jobs
from pilotage.store.tables.reader import RecordReader
from pilotage.store.tables.tasks import TASK_COLUMNS, tasks
from pilotage.store.tables.transfers import transfers

_READ = (
    select(job_inputs.c.file)
    .distinct()
    .join(jobs, jobs.c.id == job_inputs.c.job)
    .where(among(job_inputs.c.file, "names"), has_state(jobs, *LIVE_JOBS))
)
_MOVING = select(transfers.c.file).where(
    among(transfers.c.file, "names"), is_state(transfers, *LIVE_TRANSFERS)
)
_UNSPLIT = select(*TASK_COLUMNS).where(
    is_state(tasks, TaskState.REGISTERED, TaskState.SCOUTING, TaskState.SPLITTING),
    tasks.c.created >= bindparam("since"),
)


def wanted_of(reader: RecordReader, names: Sequence[str], since: float = 0.0) -> set[str]:
    """Return which of these files a live job reads, a task will read, or a transfer moves.

    Of tasks with jobs still to be made, consider those that came ``since`` a time.
    """
    found = {name for (name,) in reader.rows(_READ, names=list(names))}
    found |= {name for (name,) in reader.rows(_MOVING, names=list(names))}
    return found | (asked_by_tasks(reader, since) & set(names))


def asked_by_tasks(reader: RecordReader, since: float = 0.0) -> set[str]:
    """Return the files that tasks with jobs still to be made will read."""
    return {
        file.identifier
        for task in reader.tasks_from(_UNSPLIT, since=since)
        for file in task.spec.inputs
        if isinstance(file, InputFile)
    }
