"""What a retry reads: jobs of a task that ended badly, their outputs, and the live jobs of each owner."""

from collections.abc import Mapping
from typing import Any

from pilotage.model.records.states import ENDED, JobState
from pilotage.store.database.columns import has_state
from pilotage.store.database.rows import among
from pilotage.store.tables.jobs import jobs
from pilotage.store.worlds.parts import Reading, part
from pilotage.store.worlds.throttled_jobs import by_owner

_OF_TASKS = among(jobs.c.task, "ids")
_BAD = has_state(jobs, JobState.FAILED, JobState.CANCELLED, JobState.CLOSED)
_ENDED = has_state(jobs, *ENDED["job"])


@part("jobs", "files", "live_jobs")
def jobs_to_retry(reading: Reading) -> Mapping[str, Any]:
    """The jobs of the tasks that ended badly, with their files, and the live jobs of each owner.

    Of tasks with merge jobs those that finished are there, too: they may have to be merged.
    """
    reader, ids = reading.reader, [task.id for task in reading["tasks"]]
    merged = any(task.spec.merge for task in reading["tasks"])
    return {
        "jobs": reader.jobs_where(_OF_TASKS, _ENDED if merged else _BAD, ids=ids),
        "files": reader.files_of_tasks(ids),
        "live_jobs": by_owner(reader.connection)[0],
    }
