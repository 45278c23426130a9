"""A registered task is split into jobs."""

from collections.abc import Sequence
from itertools import repeat

from pilotage.model.decision import Decision, Move
from pilotage.model.states import TaskState
from pilotage.model.work import InputFile, NewJob, Requirements, Task
from pilotage.model.world import World


def split(world: World) -> Decision:
    """Jobs for every registered task: a job for each ``files_per_job`` inputs by name, else ``jobs`` jobs.

    A task whose inputs nobody holds fails and says which; the others are split in one move.
    """
    tasks = sorted(
        (task for task in world.tasks if task.state == TaskState.REGISTERED), key=lambda task: task.id
    )
    faults = {task.id: _fault(task) for task in tasks}
    whole = [task for task in tasks if not faults[task.id]]
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
    if whole:
        moves.append(
            Move(
                kind="task",
                ids=tuple(task.id for task in whole),
                source=TaskState.REGISTERED,
                target=TaskState.RUNNING,
                cause="split into jobs",
                creates={task.id: _jobs(task) for task in whole},
            )
        )
    return Decision(step="split", time=world.time, seed=world.seed, changes=tuple(moves))


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


def _jobs(task: Task) -> tuple[NewJob, ...]:
    spec = task.spec
    names = sorted({file.name for file in spec.inputs if isinstance(file, InputFile)})
    requirements = Requirements.of(spec, task.owner).text

    def job(inputs: Sequence[str]) -> NewJob:
        return NewJob(
            task=task.id,
            kind="normal",
            share=spec.share,
            priority=spec.priority,
            requirements=requirements,
            inputs=tuple(inputs),
            events=spec.events_per_job,
        )

    if not names:
        return tuple(repeat(job(()), spec.jobs))
    size = spec.files_per_job
    return tuple(job(names[start : start + size]) for start in range(0, len(names), size))
