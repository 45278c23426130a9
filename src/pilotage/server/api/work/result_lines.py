"""Results that wait in spools, in words, for whoever looks at their task or job."""

from pilotage.explain import job_files, pilots
from pilotage.flow.runtime import Runtime
from pilotage.model.records.states import AT_A_PILOT
from pilotage.store import JobDetails


def of_task(runtime: Runtime, task: int) -> list[str]:
    """Say which results of a task's jobs wait, and why."""
    return [*job_files.of_waiting_results(runtime.store.results_in_spools.of_task(task), runtime.clock())]


def of_job(runtime: Runtime, job: JobDetails) -> list[str]:
    """Say that the results of a job's attempt wait, and that its pilot's batch job has ended, if so."""
    if job.state not in AT_A_PILOT or job.pilot is None:
        return []
    waiting, pilot = runtime.store.results_in_spools.of_task(job.task), runtime.store.queries.pilot(job.pilot)
    mine = [one for one in waiting if (one.job, one.attempt) == (job.id, job.attempt)]
    return [*job_files.of_waiting_results(mine, runtime.clock()), *(pilots.of_end(pilot) if pilot else ())]
