"""A registered task is split into jobs, scouts first."""

from collections.abc import Iterable, Mapping, Sequence

from pilotage.model.decision import Decision, Move
from pilotage.model.states import TaskState
from pilotage.model.work import InputFile, JobKind, NewJob, Requirements, Task, TaskSpec
from pilotage.model.world import World


def split(world: World) -> Decision:
    """Jobs for every registered task: a job for each ``files_per_job`` inputs by name, else ``jobs`` jobs.

    Of a task with scouts only these are made, from the first of its inputs. A task whose inputs nobody
    holds fails and says which; the others are split in one move, and those with scouts in another.
    """
    tasks = sorted(
        (task for task in world.tasks if task.state == TaskState.REGISTERED), key=lambda task: task.id
    )
    faults = {task.id: _fault(task) for task in tasks}
    made = {task.id: _first_jobs(task) for task in tasks if not faults[task.id]}
    moves = [
        Move(
            kind="task",
            ids=(id_,),
            source=TaskState.REGISTERED,
            target=TaskState.FAILED,
            cause="cannot be split",
            changes={"error": fault},
        )
        for id_, fault in faults.items()
        if fault
    ]
    scouting = {id_: jobs for id_, jobs in made.items() if jobs[0].kind == "scout"}
    whole = {id_: jobs for id_, jobs in made.items() if id_ not in scouting}
    moves += _split(scouting, TaskState.SCOUTING, "split; its scouts are made")
    moves += _split(whole, TaskState.RUNNING, "split into jobs")
    return Decision(step="split", time=world.time, seed=world.seed, changes=tuple(moves))


def remaining(task: Task, scouts: int, again: Iterable[tuple[str, ...]]) -> tuple[NewJob, ...]:
    """The jobs of a task that has had its scouts: for the inputs of ``again``, and all after the scouts'."""
    return _jobs(task, "normal", (*again, *_chunks(task.spec)[scouts:]))


def _split(jobs: Mapping[int, tuple[NewJob, ...]], target: TaskState, cause: str) -> list[Move]:
    if not jobs:
        return []
    return [
        Move(
            kind="task",
            ids=tuple(jobs),
            source=TaskState.REGISTERED,
            target=target,
            cause=cause,
            creates=jobs,
        )
    ]


def _fault(task: Task) -> str:
    """Why a task cannot be split; empty if it can."""
    unresolved = [file.glob for file in task.spec.inputs if not isinstance(file, InputFile)]
    if unresolved:
        return f"input pattern {unresolved[0]!r} was not resolved to files when the task was submitted"
    missing = sorted(
        file.name for file in task.spec.inputs if isinstance(file, InputFile) and not file.replicas
    )
    if missing:
        return (
            f"no storage holds {len(missing)} of {len(task.spec.inputs)} inputs, for example {missing[0]!r}"
        )
    return ""


def _first_jobs(task: Task) -> tuple[NewJob, ...]:
    """Its scouts, or all of its jobs: an empty payload shows nothing, and few jobs are not worth the wait."""
    chunks, scouts = _chunks(task.spec), task.spec.scouts
    if scouts and task.spec.command and len(chunks) > 2 * scouts:
        return _jobs(task, "scout", chunks[:scouts])
    return _jobs(task, "normal", chunks)


def _chunks(spec: TaskSpec) -> Sequence[tuple[str, ...]]:
    """The inputs of each job, in the order of the jobs: the same for the same task."""
    names = sorted({file.name for file in spec.inputs if isinstance(file, InputFile)})
    if not names:
        return ((),) * spec.jobs
    size = spec.files_per_job
    return [tuple(names[start : start + size]) for start in range(0, len(names), size)]


def _jobs(task: Task, kind: JobKind, chunks: Sequence[tuple[str, ...]]) -> tuple[NewJob, ...]:
    spec = task.spec
    requirements = Requirements.of(task.expected(kind), task.owner).text
    jobs = {
        inputs: NewJob(
            task=task.id,
            kind=kind,
            share=spec.share,
            priority=spec.priority,
            requirements=requirements,
            inputs=inputs,
            events=spec.events_per_job,
        )
        for inputs in set(chunks)
    }
    return tuple(jobs[inputs] for inputs in chunks)
