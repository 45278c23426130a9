"""Groups of similar jobs: same task, changes, kind, share and priority, with inputs of the same sizes at the
same storages."""

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from itertools import chain
from math import inf
from typing import NamedTuple

from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.model.records.work import JobKind, Task, TaskSpec
from pilotage.model.rules import global_shares
from pilotage.model.rules.rebrokerage import departures
from pilotage.model.rules.work_budget import FILES, WorkBudget
from pilotage.policies.brokerage.engine.plugin_options import Options, VoPolicy
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.spec_table import SpecTable, least_output

SKIPPED_AFTER = 24 * 3600.0
"""Seconds since a merge job was first skipped at its input after which it may go anywhere (B3)."""

MEGABYTE = 1e6

Placed = tuple[tuple[int, ...], int, int]
"""Codes of the storages that hold some files, the number of files, and their bytes."""


class Group(NamedTuple):
    """Jobs that are the same to every check and weight. ``jobs`` are in order of age.

    ``task`` is the task with the changes of these jobs (``Job.changes``). ``inputs`` are the input files of
    one job, by their storages. ``spec`` has the requests of these jobs, ``policy`` the options of the task's
    VO. ``home`` has the codes of storages: merge jobs are pre-assigned to the queues there (B3). Other groups
    have none. ``together`` are the input files, each once, of all jobs brokered together: all of the task
    with this kind (B11, B33). ``io_intensive`` marks work with files that B11 limits. ``departures`` are the
    codes of queues that fast rebrokerage took these jobs from, if no pilot has called there since (B30).
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
    together: tuple[Placed, ...] = ()
    io_intensive: bool = False
    departures: tuple[int, ...] = ()

    @property
    def output_size(self) -> float:
        """Return the MB of a job's output: the size of its input for a merge job, else at least 0.5 GB
        (B17)."""
        if self.kind == "merge":
            return sum(total for _, _, total in self.inputs) / MEGABYTE
        return least_output(self.spec)


_Key = tuple[int, JobKind, str, str, int, tuple[Placed, ...], bool, tuple[int, ...]]
"""Task, kind, changes, share, priority and inputs of a job, whether it is a merge job with an expired
pre-assignment, and the queues that it left."""

_EVERYONE = Options()


def groups_of(
    world: World, queues: QueueColumns, options: Options = _EVERYONE, specs: SpecTable | None = None
) -> list[Group]:
    """Return the world's DEFINED jobs in groups, by share (see ``global_shares``), priority, then age.

    ``specs`` caches the expected needs of tasks between passes. Raises ValueError for a job without task.
    """
    specs = specs or SpecTable()
    tasks = {task.id: task for task in world.tasks}
    turn = global_shares.order(world.federation.shares, world.job_counts)
    policies = options.policies(world.federation.brokerage)
    locate = _Locator(world, queues)
    work = WorkBudget()
    members = _members(world, queues, locate, work)
    requests: dict[tuple[int, JobKind, str], tuple[Task, TaskSpec, VoPolicy]] = {}
    for (number, kind, changes, *_), jobs in members.items():
        task = tasks.get(number)
        if task is None:
            raise ValueError(f"job {min(jobs)} belongs to task {number}, which this world does not hold")
        if (number, kind, changes) not in requests:
            changed_task = specs.changed(task, changes, kind)
            requests[number, kind, changes] = (
                changed_task,
                specs.expected(changed_task, kind),
                policies.of(task.owner.vo),
            )
    together = _files_together(world, locate)
    groups = []
    for (number, kind, changes, share, priority, inputs, old, away), jobs in members.items():
        task, spec, policy = requests[number, kind, changes]
        gathered = kind == "merge" and not (old or task.spec.queues or "B3" in policy.off)
        home = _home(inputs, queues) if gathered else ()
        oldest_first = tuple(sorted(jobs)) if len(jobs) > 1 else (jobs[0],)
        # Pass fields by position: by name they would take twice as long for some thousand groups.
        read_together = together.get((number, kind), ())
        bounded = kind != "merge" and spec.io_intensity > policy.constants.io_intensity_cutoff
        attributes = task, spec, policy, kind, share, priority, inputs, home, oldest_first
        groups.append(Group(*attributes, read_together, bounded, away))
    return sorted(groups, key=lambda group: (turn.get(group.share, inf), -group.priority, group.jobs[0]))


def _files_together(world: World, locate: "_Locator") -> Mapping[tuple[int, JobKind], tuple[Placed, ...]]:
    """Return all files that a task's jobs of a kind read, each once (B11, B33)."""
    names: defaultdict[tuple[int, JobKind], dict[tuple[str, ...], None]] = defaultdict(dict)
    for job in world.jobs:
        if job.inputs and job.state is JobState.DEFINED:
            names[job.task, job.kind][job.inputs] = None
    return {key: locate.together(tuple(file_sets)) for key, file_sets in names.items()}


def _members(
    world: World, queues: QueueColumns, locate: "_Locator", work: WorkBudget
) -> dict[_Key, list[int]]:
    silent = cache(lambda text: _silent(text, queues))
    members: dict[_Key, list[int]] = {}
    defined = JobState.DEFINED
    for job in world.jobs:
        if job.state is defined:
            if job.inputs:
                work.spend(job.task, FILES, len(job.inputs))
            inputs = locate.files(job.inputs) if job.inputs else ()
            skipped = job.skipped_since if job.kind == "merge" else None
            old = skipped is not None and world.time - skipped >= SKIPPED_AFTER
            away = silent(job.departures) if job.departures else ()
            key = (job.task, job.kind, job.changes, job.share, job.priority, inputs, old, away)
            members.setdefault(key, []).append(job.id)
    return members


def _silent(text: str, queues: QueueColumns) -> tuple[int, ...]:
    """Return the queues that jobs left, if no pilot has called there since (B30)."""
    departed_queues = (
        (queues.index[name], time) for name, time in departures(text).items() if name in queues.index
    )
    # Not `<=`: NaN means that no pilot ever called.
    silent = [code for code, time in departed_queues if not queues.live.last_pilot[code] > time]
    # A unified queue and its pseudo-queues count as one queue (B2).
    return tuple(sorted({queue for code in silent for queue in queues.together.queues(code)}))


def _home(inputs: tuple[Placed, ...], queues: QueueColumns) -> tuple[int, ...]:
    """Return the storages of queues with most bytes of the input, or most files if all are empty (B3)."""
    amounts: dict[int, tuple[int, int]] = {}
    for holders, count, total in inputs:
        for code in holders:
            if code in queues.read_storages and not queues.storage_tape[code]:
                size, files = amounts.get(code, (0, 0))
                amounts[code] = (size + total, files + count)
    largest = max(amounts.values(), default=None)
    return tuple(sorted(code for code, much in amounts.items() if much == largest))


class _Locator:
    """Finds the storages that hold files."""

    def __init__(self, world: World, queues: QueueColumns) -> None:
        self._sizes = {file.name: file.size for file in world.files}
        self._found: dict[tuple[str, ...], tuple[Placed, ...]] = {}
        holders: dict[str, set[int]] = {}
        for replica in world.replicas:
            if replica.storage in queues.storages:
                holders.setdefault(replica.file, set()).add(queues.storages[replica.storage])
        self._holders: Mapping[str, tuple[int, ...]] = {
            file: tuple(sorted(codes)) for file, codes in holders.items()
        }

    def files(self, names: tuple[str, ...]) -> tuple[Placed, ...]:
        """Return these files, grouped by the storages that hold them."""
        if names not in self._found:
            self._found[names] = self._put_together(names)
        return self._found[names]

    def together(self, of_jobs: tuple[tuple[str, ...], ...]) -> tuple[Placed, ...]:
        """Return the files of several jobs, each once, grouped by the storages that hold them."""
        # Usually all jobs have the same list, which is cached.
        return self.files(of_jobs[0] if len(of_jobs) == 1 else tuple(sorted({*chain(*of_jobs)})))

    def _put_together(self, names: tuple[str, ...]) -> tuple[Placed, ...]:
        if len(names) == 1:
            return ((self._holders.get(names[0], ()), 1, self._sizes.get(names[0], 0)),)
        by_holders: dict[tuple[int, ...], tuple[int, int]] = {}
        for name in dict.fromkeys(names):
            holders = self._holders.get(name, ())
            count, total = by_holders.get(holders, (0, 0))
            by_holders[holders] = (count + 1, total + self._sizes.get(name, 0))
        return tuple(sorted((holders, count, total) for holders, (count, total) in by_holders.items()))
