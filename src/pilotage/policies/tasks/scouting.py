"""Evaluate scouts: their measurements replace the task's estimates before the other jobs are made."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.documents.moves import task_failed
from pilotage.model.documents.serialization import to_json
from pilotage.model.documents.world import JobUsage, World
from pilotage.model.records.federation import UNKNOWN_CORE_POWER, ScoutConstants
from pilotage.model.records.states import JOBS_AT_WORK, JobState, TaskState
from pilotage.model.records.work import Job, Measured, Task
from pilotage.model.rules.work_budget import FILES, WorkBudget
from pilotage.policies.tasks.splitting import again

_WELL = (JobState.MERGING, JobState.FINISHED)
_MEGABYTE = 1e6


def conclude(world: World) -> Decision:
    """Evaluate or fail every scouting task without an active scout.

    If enough scouts succeeded, the task is split further. Its other jobs get requirements from the
    measurements, and new jobs get the inputs of failed scouts. Otherwise the task fails with the reason.
    """
    scouts: dict[int, list[Job]] = defaultdict(list)
    for job in sorted(world.jobs, key=lambda job: job.id):
        if job.kind == "scout":
            scouts[job.task].append(job)
    evidence = Evidence.of(world)
    moves: list[Move] = []
    stored: list[int] = []
    work = WorkBudget()
    for task in sorted(world.tasks, key=lambda task: task.id):
        task_scouts = scouts[task.id]
        if (
            task.state != TaskState.SCOUTING
            or not task_scouts
            or any(job.state in JOBS_AT_WORK for job in task_scouts)
        ):
            continue
        work.spend(task.id, FILES, sum(len(job.inputs) for job in task_scouts))
        if error := _error(task_scouts, world.federation.scouting):
            stored += [job.id for job in task_scouts if job.state == JobState.MERGING]
            moves.append(task_failed(task, "too many scouts failed", error))
        else:
            moves.append(_measured(task, task_scouts, evidence))
    changes = (*_stored(stored), *moves)
    return Decision(step="scout", time=world.time, seed=world.seed, changes=changes)


def _error(scouts: Sequence[Job], constants: ScoutConstants) -> str:
    """Return why the task fails, with one scout's error as example; empty if enough scouts succeeded."""
    finished = sum(job.state in _WELL for job in scouts)
    needed = max(1, ceil(constants.success * len(scouts)))
    if finished >= needed:
        return ""
    example = next((job for job in scouts if job.state == JobState.FAILED), None)
    error = f"of {len(scouts)} scouts {finished} ended well, at least {needed} must"
    return f"{error}; scout job {example.id}: {example.error}" if example else error


def _stored(ids: Sequence[int]) -> list[Move]:
    if not ids:
        return []
    return [
        Move(
            kind="job",
            ids=tuple(ids),
            source=JobState.MERGING,
            target=JobState.FINISHED,
            cause="its task ended",
        )
    ]


def _measured(task: Task, scouts: Sequence[Job], evidence: "Evidence") -> Move:
    finished = [job for job in scouts if job.state in _WELL]
    failed = [job for job in scouts if job.state not in _WELL]
    measured = measure(task, finished, len(failed), evidence)
    jobs = again(replace(task, measured=measured), failed)
    return Move(
        kind="task",
        ids=(task.id,),
        source=TaskState.SCOUTING,
        target=TaskState.SPLITTING,
        cause=f"measured by {len(finished)} of {len(scouts)} scouts",
        changes={"measured": to_json(measured).decode()},
        next_attempt=True,
        creates={task.id: jobs},
        changes_read=task.changes,
    )


@dataclass(frozen=True, slots=True)
class Evidence:
    """Measurements of scouts: their usage, the bytes of their outputs, and the core power of queues."""

    usages: Mapping[int, JobUsage]
    outputs: Mapping[int, int]
    powers: Mapping[str, float]
    constants: ScoutConstants

    @classmethod
    def of(cls, world: World) -> "Evidence":
        """Collect the evidence about the task's jobs from the world."""
        outputs: Counter[int] = Counter()
        for file in world.files:
            if file.job is not None:
                outputs[file.job] += file.size
        return cls(
            usages={usage.job: usage for usage in world.usages},
            outputs=outputs,
            powers={q.name: q.core_power or UNKNOWN_CORE_POWER for q in world.federation.queues},
            constants=world.federation.scouting,
        )


def _with_margin(margin: float, values: Iterable[float]) -> float | None:
    """Return the largest value plus a margin; None if there are no values."""
    largest = max(values, default=None)
    return None if largest is None else largest * margin


def measure(task: Task, finished: Sequence[Job], failed: int, evidence: Evidence) -> Measured:
    """Return the highest needs of all scouts, plus a margin, because other jobs may need more than a few
    scouts.

    A queue that just fits the estimate may end a job that exceeds it, so no scout is dropped as an outlier. A
    usage without a wall time is not a measurement. Scouts at a queue that has left the federation, so that
    its core power is unknown, count without CPU time.
    """
    constants, cores = evidence.constants, max(1, task.spec.cores)
    ran = [
        (job, usage)
        for job in finished
        if (usage := evidence.usages.get(job.id)) is not None and usage.wall_seconds > 0
    ]
    output = {job.id: evidence.outputs.get(job.id, 0) / _MEGABYTE for job in finished}
    largest = partial(_with_margin, constants.margin)
    cpu_time = largest(
        usage.cpu_seconds * evidence.powers[job.queue] / job.events
        for job, usage in ran
        if job.queue in evidence.powers
    )
    unexplained = largest(
        max(0.0, usage.wall_seconds - usage.cpu_seconds / (cores * task.spec.cpu_efficiency))
        for _, usage in ran
    )
    memory = largest(usage.max_rss for _, usage in ran)
    step = constants.memory_step
    return Measured(
        finished=len(finished),
        failed=failed,
        cpu_time=cpu_time or None,
        base_time=unexplained,
        walltime=largest(usage.wall_seconds for _, usage in ran),
        # Round up in steps: memory is part of a task queue's name, and similar tasks should share one.
        memory=max(1, ceil(memory / step)) * float(step) if memory else None,
        work_disk=largest(max(0.0, usage.max_workdir - output[job.id]) for job, usage in ran),
        out_disk=largest(output[job.id] / job.events for job in finished),
    )
