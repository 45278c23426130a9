"""Groups of like jobs: of one task, kind and priority, with inputs of the same sizes at the same storages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pilotage.model.states import JobState
from pilotage.model.work import Job, JobKind, Task, TaskSpec
from pilotage.model.world import World

from . import global_shares
from .options import Options, VoPolicy
from .queue_columns import QueueColumns

SKIPPED_AFTER = 24 * 3600.0
"""Seconds after which merge jobs that are still to be brokered may go anywhere (B3)."""

Placed = tuple[tuple[int, ...], int, int]
"""Storage codes that hold some files, how many files, and their bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Jobs that differ by nothing a check or weight could see; ``jobs`` are in order of age.

    ``inputs`` are the input files of one job by where they lie. ``spec`` is what these jobs ask for,
    ``policy`` what holds for the task's VO. ``home`` has the codes of the storages whose queues merge jobs
    are pre-assigned to (B3); it is empty for all others.
    """

    task: Task
    spec: TaskSpec
    policy: VoPolicy
    kind: JobKind
    share: str
    priority: int
    inputs: tuple[Placed, ...]
    home: tuple[int, ...]
    jobs: tuple[int, ...]


class _Key(NamedTuple):
    """Attributes that jobs of one group share; ``old`` merge jobs are no longer pre-assigned."""

    task: int
    kind: JobKind
    share: str
    priority: int
    inputs: tuple[Placed, ...]
    old: bool


_EVERYONE = Options()


def groups_of(world: World, queues: QueueColumns, options: Options = _EVERYONE) -> list[Group]:
    """The world's DEFINED jobs in groups: by share (see ``shares.order``), priority, then age.

    Raises ValueError for a job without task.
    """
    tasks = {task.id: task for task in world.tasks}
    turn = global_shares.order(world.federation.shares, world.job_counts)
    policies = options.policies(world.federation.brokerage)
    specs: dict[tuple[int, JobKind], TaskSpec] = {}
    groups = []
    for key, jobs in _members(world, queues).items():
        if key.task not in tasks:
            raise ValueError(f"job {min(jobs)} belongs to task {key.task}, which this world does not hold")
        task = tasks[key.task]
        if (key.task, key.kind) not in specs:
            specs[key.task, key.kind] = task.expected(key.kind)
        policy = policies.of(task.owner.vo)
        gathered = key.kind == "merge" and not (key.old or task.spec.queues or "B3" in policy.off)
        groups.append(
            Group(
                task=task,
                spec=specs[key.task, key.kind],
                policy=policy,
                kind=key.kind,
                share=key.share,
                priority=key.priority,
                inputs=key.inputs,
                home=_home(key.inputs, queues) if gathered else (),
                jobs=tuple(sorted(jobs)),
            )
        )
    last = len(turn)
    return sorted(groups, key=lambda group: (turn.get(group.share, last), -group.priority, group.jobs[0]))


def _members(world: World, queues: QueueColumns) -> dict[_Key, list[int]]:
    locate = _Locator(world, queues)
    members: dict[_Key, list[int]] = {}
    for job in world.jobs:
        if job.state is JobState.DEFINED:
            inputs = locate(job) if job.inputs else ()
            old = job.kind == "merge" and world.time - job.created >= SKIPPED_AFTER
            key = _Key(job.task, job.kind, job.share, job.priority, inputs, old)
            members.setdefault(key, []).append(job.id)
    return members


def _home(inputs: tuple[Placed, ...], queues: QueueColumns) -> tuple[int, ...]:
    """B3: of the storages that queues read, those with most of the bytes; with most files, if empty."""
    held: dict[int, tuple[int, int]] = {}
    for holders, count, total in inputs:
        for code in holders:
            if code in queues.read_storages and not queues.storage_tape[code]:
                size, files = held.get(code, (0, 0))
                held[code] = (size + total, files + count)
    most = max(held.values(), default=None)
    return tuple(sorted(code for code, much in held.items() if much == most))


class _Locator:
    """Finds the storages that hold the input files of a job."""

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
