"""Results that wait in spools, in words, for whoever looks at their task or job."""

from pilotage.explain import waiting_results
from pilotage.flow.runtime import Runtime
from pilotage.model.records.states import AT_A_PILOT
from pilotage.store import JobDetails


def of_task(runtime: Runtime, task: int) -> list[str]:
    """Say which results of a task's jobs wait, and why."""
    return [*waiting_results.of(runtime.store.results_in_spools.of_task(task), runtime.clock())]


def of_job(runtime: Runtime, job: JobDetails) -> list[str]:
    """Say that the results of a job's attempt wait, if they do."""
    waiting = runtime.store.results_in_spools.of_task(job.task) if job.state in AT_A_PILOT else ()
    mine = [one for one in waiting if (one.job, one.attempt) == (job.id, job.attempt)]
    return [*waiting_results.of(mine, runtime.clock())]
