"""Groups of like jobs: of one task, kind and priority, with inputs of the same sizes at the same storages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pilotage.model.states import JobState
from pilotage.model.work import Job, JobKind, Task, TaskSpec
from pilotage.model.world import World

from .columns import QueueColumns

Placed = tuple[tuple[int, ...], int, int]
"""Storage codes that hold some files, how many files, and their bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Jobs that differ by nothing a check or weight could see; ``jobs`` are in order of age.

    ``inputs`` are the input files of one job by where they lie. ``spec`` is what these jobs ask for.
    """

    task: Task
    spec: TaskSpec
    kind: JobKind
    priority: int
    inputs: tuple[Placed, ...]
    jobs: tuple[int, ...]


def groups_of(world: World, queues: QueueColumns) -> list[Group]:
    """The world's DEFINED jobs in groups: by priority, then age. Raises ValueError for a job without task."""
    tasks = {task.id: task for task in world.tasks}
    locate = _Locator(world, queues)
    members: dict[tuple[int, JobKind, int, tuple[Placed, ...]], list[int]] = {}
    for job in world.jobs:
        if job.state is JobState.DEFINED:
            key = (job.task, job.kind, job.priority, locate(job) if job.inputs else ())
            members.setdefault(key, []).append(job.id)
    specs: dict[tuple[int, JobKind], TaskSpec] = {}
    groups = []
    for (number, kind, priority, inputs), jobs in members.items():
        if number not in tasks:
            raise ValueError(f"job {min(jobs)} belongs to task {number}, which this world does not hold")
        task = tasks[number]
        if (number, kind) not in specs:
            specs[number, kind] = _asked(task.spec, kind)
        groups.append(
            Group(
                task=task,
                spec=specs[number, kind],
                kind=kind,
                priority=priority,
                inputs=inputs,
                jobs=tuple(sorted(jobs)),
            )
        )
    return sorted(groups, key=lambda group: (-group.priority, group.jobs[0]))


def _asked(spec: TaskSpec, kind: JobKind) -> TaskSpec:
    asked = spec.for_job(kind)
    if kind == "merge" and spec.merge is not None and spec.merge.walltime is not None:
        # A walltime given for merging stands instead of the CPU time of the jobs whose outputs are merged.
        return replace(asked, cpu_time=0)
    return asked


class _Locator:
    """Where the input files of a job lie."""

    def __init__(self, world: World, queues: QueueColumns) -> None:
        self._sizes = {file.name: file.size for file in world.files}
        holders: dict[str, set[int]] = {}
        for replica in world.replicas:
            if replica.storage in queues.storages:
                holders.setdefault(replica.file, set()).add(queues.storages[replica.storage])
        self._holders: Mapping[str, tuple[int, ...]] = {
            file: tuple(sorted(codes)) for file, codes in holders.items()
        }

    def __call__(self, job: Job) -> tuple[Placed, ...]:
        return _by_holders((self._holders.get(name, ()), self._sizes.get(name, 0)) for name in job.inputs)


def _by_holders(files: Iterable[tuple[tuple[int, ...], int]]) -> tuple[Placed, ...]:
    found: dict[tuple[int, ...], tuple[int, int]] = {}
    for holders, size in files:
        count, total = found.get(holders, (0, 0))
        found[holders] = (count + 1, total + size)
    return tuple(sorted((holders, count, total) for holders, (count, total) in found.items()))
