"""Change fields of a task for jobs that have not started, after a look at where they would go; its lease."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pilotage.explain import sure_waits
from pilotage.explain.comparison import FieldChange, WhatIf, side_by_side
from pilotage.explain.remarks import sentence
from pilotage.flow.calls.work import preview, what_if
from pilotage.flow.calls.work.steering import Moved
from pilotage.flow.calls.work.task_fields import changes_of_jobs
from pilotage.flow.errors import LeaseTooShort, NoSuchTask, NotNow
from pilotage.flow.runtime import Runtime
from pilotage.flow.task_changes import change_task
from pilotage.model.documents.decision import Decision, Touch
from pilotage.model.documents.world import World
from pilotage.model.records.spec import TaskSpec
from pilotage.model.records.states import AT_A_PILOT, LIVE_TASKS, JobState, TaskState
from pilotage.model.records.work import Job, Task
from pilotage.model.rules.plain_states import job_clause, task_clause
from pilotage.model.rules.timeouts import lease_of
from pilotage.policies.tasks import changing
from pilotage.store import note_act
from pilotage.store.tasks.work import brokered_again, one_job, one_task, unstarted_jobs_of

_ALL_MADE = (TaskState.RUNNING, TaskState.MERGING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person wants changed: fields with their values, and whether no queue needs to fit."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    anyway: bool = False


def set_fields(runtime: Runtime, task: int, edits: Wanted, who: str, job: int | None = None) -> Moved:
    """Change fields for a task's jobs that have not started, or for one of them.

    Return how many jobs it changed, by their state.

    Raises ``NoSuchTask``, ``BadDocument`` for the fields, and ``NotNow`` with what would work
    instead, or why no queue would take the jobs.
    """
    world, jobs = _checked(runtime, task, job)
    values = changes_of_jobs(world, jobs, edits.fields)
    looked_at(runtime, world.tasks[0], jobs, values, edits, job)
    note_fields(world, values)
    decide = partial(changing.change, values=values, who=who, only=job)
    reads = one_job(task, job) if job else unstarted_jobs_of(task)
    return change_task(runtime, task, who, decide, reads=reads).moved


def set_preview(runtime: Runtime, task: int, edits: Wanted, job: int | None = None) -> tuple[Moved, WhatIf]:
    """Return how many jobs would change, by their state, and where they would go.

    Raises as ``set_fields`` does, but not for want of a queue.
    """
    world, jobs = _checked(runtime, task, job)
    values = changes_of_jobs(world, jobs, edits.fields)
    moved = Counter[Any]()
    for move in changing.change(world, values, "", job).moves:
        moved[move.source] += len(move.ids)
    return moved, compared(runtime, world.tasks[0], jobs, values)


def looked_at(
    runtime: Runtime,
    task: Task,
    jobs: Sequence[Job],
    values: Mapping[str, Any],
    edits: Wanted,
    job: int | None = None,
) -> None:
    """Raise ``NotNow`` if no queue would ever take the changed jobs; not if wanted ``anyway``."""
    if edits.anyway or not values:
        return
    comparison = compared(runtime, task, jobs, values)
    subject = f"job:{job}" if job else f"{task.id}"
    if reasons := [*map(sentence, sure_waits.of_choices(f"task:{task.id}", comparison.after))]:
        raise NotNow(
            "\n".join([*reasons, *side_by_side(comparison), f"--anyway changes {subject} all the same"])
        )


def compared(runtime: Runtime, task: Task, jobs: Sequence[Job], values: Mapping[str, Any]) -> WhatIf:
    """Broker these jobs again, without and with changes; without jobs, future ones of the task."""
    limit = runtime.store.federation().loops.batch
    ids = [record.id for record in jobs[:limit]]
    world = runtime.elements.reported(runtime.world(*brokered_again(task.id, ids=ids), batch=limit))
    world = world if world.jobs else preview.split_up(world)
    return what_if.compared(
        world, changing.with_changes(world, values), _field_changes(world, values), runtime.time_limit
    )


def _field_changes(world: World, values: Mapping[str, Any]) -> Sequence[FieldChange]:
    (task,) = world.tasks
    first = world.jobs[0] if world.jobs else None
    kind = first.kind if first else "normal"
    before = task.changed(first.changes if first else task.changes, kind).expected(kind)
    field_changes = (
        FieldChange(field=name, before=getattr(before, name), after=values[name]) for name in values
    )
    return [change for change in field_changes if change.before != change.after]


def note_fields(world: World, values: Mapping[str, Any]) -> None:
    """Let the audit show fields of a task before and after a change."""
    changes = _field_changes(world, values) if values else ()
    note_act(
        before={change.field: _shown(change.before) for change in changes},
        after={change.field: _shown(change.after) for change in changes},
    )


def _shown(value: Any) -> str | float | None:
    return value if isinstance(value, str | int | float | None) else str(value)


def _checked(runtime: Runtime, number: int, job: int | None) -> tuple[World, list[Job]]:
    """Return the task, with the jobs that a change concerns. Raises as ``set_fields`` does."""
    reads = one_job(number, job) if job else unstarted_jobs_of(number)
    world = runtime.world(one_task(number), "task_counts", "advertisements", reads)
    if not world.tasks:
        raise NoSuchTask(number)
    (task,) = world.tasks
    if task.state not in LIVE_TASKS:
        retried = f"pilotage retry {number} --set FIELD=VALUE changes what it retries"
        instead = "submit it again with other values" if task.state is TaskState.FINISHED else retried
        raise NotNow(f"task {number} {task_clause(task.state)}: {instead}")
    jobs = changing.affected(task, world.jobs, job)
    if not jobs and job:
        raise NotNow(_not_of_job(world.jobs[0]))
    if not jobs and task.state in _ALL_MADE:
        at_pilots = sum(count.jobs for count in world.task_counts if count.state in AT_A_PILOT)
        raise NotNow(
            f"no job of task {number} is left to start ({at_pilots} run): what runs keeps its limits; "
            f"pilotage cancel job:ID ends one, and pilotage retry job:ID --set FIELD=VALUE runs it again"
        )
    return world, jobs


def _not_of_job(job: Job) -> str:
    again = f"pilotage retry job:{job.id} --set FIELD=VALUE"
    if job.state in AT_A_PILOT:
        return (
            f"job {job.id} {job_clause(job.state)}, and what runs keeps its limits: "
            f"pilotage cancel job:{job.id}, then {again}"
        )
    if job.state in (JobState.FAILED, JobState.CANCELLED, JobState.CLOSED):
        return f"job {job.id} {job_clause(job.state)}: {again}"
    return f"job {job.id} {job_clause(job.state)}: its payload has ended, and nothing is left to change"


def lease_end(runtime: Runtime, seconds: float, specs: Iterable[TaskSpec]) -> float:
    """Return when to cancel tasks so that nothing of them runs after this many s from now.

    Disconnected pilots run on until the leases of their jobs end, which depends on the workflow. Others hear
    of it at their next report. Raises ``LeaseTooShort`` if that takes longer than the lease.
    """
    federation = runtime.store.federation()
    leases = [lease_of(federation.timeouts, spec.workflow) for spec in specs]
    unheard = 1.1 * max(leases, default=0.0) + 2 * federation.loops.period
    if seconds <= unheard:
        raise LeaseTooShort(
            f"a lease of {seconds:g} s cannot be kept: pilots may run on for {unheard:g} s after a task is "
            "cancelled; ask for more, or lower timeouts.heartbeat, or that of the workflow, here"
        )
    return runtime.clock() + seconds - unheard


def renew(runtime: Runtime, task: int, spec: TaskSpec, seconds: float, actor: str) -> None:
    """Renew a task's lease. A task that has ended stays as it is. Raises ``LeaseTooShort``."""
    changes = {"lease_end": lease_end(runtime, seconds, [spec])}
    touch = Touch(kind="task", ids=(task,), changes=changes)
    decision = Decision(step="renew", time=runtime.clock(), seed=runtime.seeds(), changes=(touch,))
    runtime.store.commit(decision, actor)
