"""Stop tasks if their first jobs all failed in the same way, because the others would fail too (F3)."""

from collections import defaultdict

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.documents.moves import no_live_job, task_failed
from pilotage.model.documents.world import World
from pilotage.model.records.constants import GuardConstants
from pilotage.model.records.failures import Failure
from pilotage.model.records.states import DONE_JOBS, LIVE_JOBS, LIVE_TASKS, JobState, TaskState
from pilotage.model.records.work import Job, Task

STOP = "stop"
"""The step that decides by this policy."""


def stop(world: World) -> Decision:
    """Fail every task if its attempts so far all failed in the same way, and close its live jobs.

    Kind, exit code and end of stderr must agree ``guard.same`` times, or once per scout, and no job may have
    succeeded. For a task with fewer jobs, but at least three, once per job is enough, if they failed at
    several nodes or their queue has few pilots. If the place may be to blame, the task is not stopped: its
    jobs elsewhere will show (F2). An attempt counts by its kind of failure, and if the next one does not get
    larger limits (``Failure.stops_tasks``).
    """
    counts: dict[int, dict[JobState, int]] = defaultdict(dict)
    for count in world.task_counts:
        counts[count.task][count.state] = count.jobs
    failures: dict[int, list[Failure]] = defaultdict(list)
    for failure in world.failures:
        if failure.stops_tasks and not failure.is_former:
            failures[failure.task].append(failure)
    live: dict[int, list[Job]] = defaultdict(list)
    for job in world.jobs:
        if job.state in LIVE_JOBS:
            live[job.task].append(job)
    changes: list[Move] = []
    for task in sorted(world.tasks, key=lambda task: task.id):
        if _is_hopeless(task, counts[task.id], failures[task.id], world.federation.guard):
            error = _error(task, failures[task.id])
            changes += [
                *_closed(live[task.id], world.time),
                task_failed(
                    task, "its first attempts all failed alike", error, claims=(no_live_job(task.id),)
                ),
            ]
    return Decision(step=STOP, time=world.time, seed=world.seed, changes=tuple(changes))


def _is_hopeless(
    task: Task, counts: dict[JobState, int], failures: list[Failure], constants: GuardConstants
) -> bool:
    if task.state not in LIVE_TASKS or not failures or any(counts.get(state) for state in DONE_JOBS):
        return False
    least = constants.same
    jobs = sum(counts.values())
    if task.state is TaskState.SCOUTING:
        # A task with few scouts can never have as many failures.
        least = min(least, max(constants.fewest, jobs))
    elif task.state is TaskState.RUNNING and constants.fewest <= jobs == len(
        {failure.job for failure in failures}
    ):
        # A task with few jobs may never have as many failures: one per job is enough.
        least = min(least, jobs) if _is_shown(failures, constants) else least
    signatures = {failure.signature for failure in failures}
    doubtful = any(failure.may_follow_place for failure in failures)
    return len(failures) >= least and len(signatures) == 1 and not doubtful


def _is_shown(failures: list[Failure], constants: GuardConstants) -> bool:
    """Return whether the task is to blame: failures at one node among many may be due to a black hole
    (F2)."""
    if len({(failure.queue, failure.node) for failure in failures}) > 1:
        return True
    return all(constants.pilots * failure.pilots <= 1 for failure in failures)


def _error(task: Task, failures: list[Failure]) -> str:
    """Return an error with the failure, and how to run the others if only these jobs are bad.

    If one job succeeds, the task is not stopped again, so the others run.
    """
    first = failures[0]
    count = len({failure.job for failure in failures})
    jobs = "1 job" if count == 1 else f"{count} jobs"
    if limit := first.rules.exceeded:
        field = "ram" if limit == "memory" else limit
        return (
            f"stopped: {jobs} exceeded the most {limit} that an attempt may ask for, at {_places(failures)}; "
            f"job {first.job} was the first; with more: pilotage retry {task.id} --set {field}=NUMBER"
        )
    return (
        f"stopped: its first {len(failures)} attempts, of {jobs}, all failed alike at {_places(failures)}, "
        f"with exit code {first.exit_code}: {first.error}; "
        f"job {first.job} was the first{_way_on(task)}"
    )


def _places(failures: list[Failure]) -> str:
    first, *more = sorted({failure.queue for failure in failures})
    return f"{', '.join([first, *more[:-1]])} and {more[-1]}" if more else first


def _way_on(task: Task) -> str:
    if task.state is TaskState.SCOUTING:
        first = "if only its first inputs are bad, leave them out, or submit it again with scouts: 0"
        return f"; mend it and go on: pilotage retry {task.id}; {first}"
    again = f"retry a good one (pilotage retry job:ID), then all (pilotage retry {task.id})"
    return f"; if only these jobs are bad, {again}"


def _closed(live: list[Job], time: float) -> list[Move]:
    """Close jobs. The errors of their earlier attempts stay readable."""
    by_state: dict[JobState, list[int]] = defaultdict(list)
    for job in live:
        by_state[job.state].append(job.id)
    return [
        Move(
            kind="job",
            ids=tuple(sorted(ids)),
            source=state,
            target=JobState.CLOSED,
            cause="its task was stopped",
            changes={"ended": time},
        )
        for state, ids in sorted(by_state.items())
    ]
