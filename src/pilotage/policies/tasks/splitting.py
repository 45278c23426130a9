"""Split tasks into jobs, scouts first, in parts that block the writer only briefly."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.documents.world import World
from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.records.states import TASKS_TO_SPLIT, TaskState
from pilotage.model.records.work import (
    InputDataset,
    InputFile,
    InputPattern,
    Job,
    JobKind,
    NewJob,
    Requirements,
    Task,
    TaskOutputs,
    TaskSpec,
)
from pilotage.model.rules.job_rooms import JobRooms
from pilotage.model.rules.work_budget import FILES, WorkBudget
from pilotage.model.values.parameters import row_count
from pilotage.model.values.step_names import SPLIT
from pilotage.policies.tasks.throttling import admitted, released

SLICE = 1000
"""Most jobs made in one pass, so that the commit blocks the only writer for well under 100 ms."""

TURN = 100
"""Least number of jobs for one task in a pass, so that a pass covers at most ten large tasks."""


def split(world: World) -> Decision:
    """Make the next jobs of tasks, longest waiting first, at most ``SLICE`` of them.

    Make a job for each ``files_per_job`` inputs in order of name, or ``jobs`` jobs without inputs; with
    parameters do so for each row in turn. A task with scouts gets these first, from its first inputs. A task
    fails if no storage holds some of its inputs; the error has an example. Jobs beyond a quota of live jobs
    are throttled. Earlier throttled jobs are released first.
    """
    counts: Counter[int] = Counter()
    for count in world.task_counts:
        counts[count.task] += count.jobs
    tasks = sorted(
        (task for task in world.tasks if task.state in TASKS_TO_SPLIT),
        key=lambda task: (task.since, task.id),
    )
    rooms = JobRooms(world.federation.quotas, world.live_jobs)
    free = released(world, rooms, SLICE)
    failed: list[Move] = []
    parts: list[_Part] = []
    slots = SLICE - sum(len(move.ids) for move in free)
    work = WorkBudget()
    for task in tasks:
        if slots <= 0:
            break
        # Count all inputs of the task, because each part is cut from all of them.
        work.spend(task.id, FILES, len(task.spec.inputs))
        if fault := _fault(task):
            failed.append(_cannot(task, fault))
            continue
        # Every task gets a turn, so that a small one does not wait for all of a large one.
        part = _part(task, counts[task.id], min(slots, max(TURN, SLICE // len(tasks))))
        slots -= len(part.jobs)
        parts.append(replace(part, jobs=admitted(part.jobs, task.owner, rooms)))
    changes = (*failed, *free, *_moves(parts, world.federation.quotas))
    return Decision(step=SPLIT, time=world.time, seed=world.seed, changes=changes)


def every_job(task: Task) -> tuple[NewJob, ...]:
    """Return all jobs that a task splits into, its scouts first; none if it cannot be split."""
    if _fault(task):
        return ()
    chunks, scouts = _chunks(task.spec), _scouts(task.spec)
    first, rest = enumerate(chunks[:scouts]), enumerate(chunks[scouts:], scouts)
    return (*_jobs(task, "scout", first), *_jobs(task, "normal", rest))


def again(task: Task, failed: Iterable[Job]) -> tuple[NewJob, ...]:
    """Return jobs that do the work of failed scouts: with their inputs, and under their indexes."""
    return _jobs(task, "normal", ((job.index, job.inputs) for job in failed))


@dataclass(frozen=True, slots=True)
class _Part:
    """The next jobs of a task, and the task's state after they are made."""

    task: Task
    jobs: tuple[NewJob, ...]
    target: TaskState


def _part(task: Task, count: int, limit: int) -> _Part:
    """Return the next jobs of a task that has ``count`` jobs, and replacements of failed scouts."""
    chunks = _chunks(task.spec)
    scouts = _scouts(task.spec) if task.measured is None else 0
    if scouts:
        return _Part(task, _jobs(task, "scout", enumerate(chunks[:scouts])), TaskState.SCOUTING)
    done = count - (task.measured.failed if task.measured else 0)
    jobs = _jobs(task, "normal", enumerate(chunks[done : done + limit], done))
    whole = done + len(jobs) >= len(chunks)
    return _Part(task, jobs, TaskState.RUNNING if whole else TaskState.SPLITTING)


_CAUSES = {
    TaskState.SCOUTING: "split; its scouts are made",
    TaskState.SPLITTING: "split in part",
    TaskState.RUNNING: "split into jobs",
}


def _moves(parts: Sequence[_Part], quotas: QuotaConstants) -> list[Move]:
    """Return one move for all tasks with the same transition and the same changes.

    The commit refuses a part if another pass has made it, if a person has changed the task since, or if other
    jobs took the room.
    """
    groups: dict[tuple[TaskState, TaskState, str], list[_Part]] = defaultdict(list)
    for part in sorted(parts, key=lambda part: part.task.id):
        groups[part.task.state, part.target, part.task.changes].append(part)
    return [
        Move(
            kind="task",
            ids=tuple(part.task.id for part in same),
            attempts=tuple(part.task.attempt for part in same),
            next_attempt=True,
            source=source,
            target=target,
            cause=_CAUSES[target],
            creates={part.task.id: part.jobs for part in same},
            changes_read=changes,
            job_quotas=quotas,
        )
        for (source, target, changes), same in sorted(groups.items(), key=lambda item: item[0])
    ]


def _cannot(task: Task, fault: str) -> Move:
    return Move(
        kind="task",
        ids=(task.id,),
        source=task.state,
        target=TaskState.FAILED,
        cause="cannot be split",
        changes={"error": fault},
    )


def _words(unresolved: InputPattern | InputDataset | TaskOutputs) -> str:
    if isinstance(unresolved, TaskOutputs):
        return f"of task {unresolved.task}"
    if isinstance(unresolved, InputPattern):
        return f"pattern {unresolved.glob!r}"
    return f"dataset {unresolved.dataset!r}"


def _fault(task: Task) -> str:
    """Return why a task cannot be split; empty if it can."""
    unresolved = [file for file in task.spec.inputs if not isinstance(file, InputFile)]
    if unresolved:
        return f"its input {_words(unresolved[0])} was not resolved to files when the task was submitted"
    missing = sorted(
        file.name for file in task.spec.inputs if isinstance(file, InputFile) and not file.replicas
    )
    if missing:
        return (
            f"no storage holds {len(missing)} of {len(task.spec.inputs)} inputs, for example {missing[0]!r}"
        )
    return ""


def _scouts(spec: TaskSpec) -> int:
    """Return the number of scouts; none for an empty payload, or for so few jobs that scouts are not worth
    the wait."""
    return spec.scouts if spec.command and spec.planned_jobs > 2 * spec.scouts else 0


def _chunks(spec: TaskSpec) -> Sequence[tuple[str, ...]]:
    """Return the inputs of each job, in order of the jobs. The order is always the same for a task."""
    files = [file for file in spec.inputs if isinstance(file, InputFile)]
    rows = row_count(spec.parameters)
    if any(file.rows for file in files):
        return _of_rows(files, rows)
    names = sorted({file.identifier for file in files})
    if not names:
        return ((),) * spec.planned_jobs
    size = spec.files_per_job
    groups = [tuple(names[start : start + size]) for start in range(0, len(names), size)]
    return groups * max(1, rows)


def _of_rows(files: Iterable[InputFile], rows: int) -> Sequence[tuple[str, ...]]:
    """Return the inputs of each row, with the inputs that all rows share."""
    shared = [file.identifier for file in files if not file.rows]
    of_row: dict[int, list[str]] = defaultdict(list)
    for file in files:
        for row in file.rows:
            of_row[row].append(file.identifier)
    return [tuple(sorted({*shared, *of_row[row]})) for row in range(rows)]


def _jobs(
    task: Task, kind: JobKind, chunks: Iterable[tuple[int | None, tuple[str, ...]]]
) -> tuple[NewJob, ...]:
    """Return a job for each chunk of inputs, with the chunk's index in the whole task."""
    changed = task.changed(task.changes, kind)
    spec = changed.spec
    requirements = Requirements.of(changed.expected(kind), task.owner).text
    return tuple(
        NewJob(
            task=task.id,
            kind=kind,
            share=spec.share,
            priority=spec.priority,
            requirements=requirements,
            inputs=inputs,
            events=spec.events_per_job,
            index=index,
            changes=task.changes,
        )
        for index, inputs in chunks
    )
