"""A decision under construction: choices, and moves of jobs with their downloads (D1, D2)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from pilotage.model.documents.decision import Choice, Creation, Decision, Move, Value
from pilotage.model.documents.reasons import Choices, Facts, Packable
from pilotage.model.documents.world import World
from pilotage.model.records.counters import Claim
from pilotage.model.records.federation import Queue
from pilotage.model.records.spec import Binding
from pilotage.model.records.states import JobState
from pilotage.model.records.work import Job, JobKind, NewTransfer, Task
from pilotage.model.rules.likely_ends import expected_run
from pilotage.model.rules.sources import Sources
from pilotage.model.rules.transfer_shares import base_priority, share_of, transfer_priority
from pilotage.model.values.step_names import BROKER
from pilotage.policies.brokerage.engine.job_groups import MEGABYTE, Group
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns


class DecisionDraft:
    """The moves and choices of one pass. A move belongs to the choice added after it."""

    def __init__(self, world: World, queues: QueueColumns) -> None:
        self._world = world
        self._queues = queues
        # A list of str: to take a name out of an array would cost as much as the rest of a move.
        self._names: list[str] = queues.names.tolist()
        self._downloads = Downloads(world, queues.sources)
        self._moves: list[Move] = []
        self._choices: list[Packable | Choice] = []
        self._declared = {queue.name: queue for queue in world.federation.queues}

    def place(
        self,
        ids: tuple[int, ...],
        queue: int,
        *,
        local: bool,
        cause: str,
        claims: tuple[Claim, ...],
        binding: Binding = "early",
        takers: tuple[str, ...] | None = None,
    ) -> None:
        """Send jobs to a queue (by code). They are ASSIGNED with their downloads, unless all input is
        ``local``.

        Jobs that may leave the queue get no download if a pilot can read their input remotely (E3).
        """
        name, storage = self._names[queue], self._queues.storage_of(queue)
        declared = self._declared[name]
        # A queue that forwards jobs needs the files at its storage: the other Pilotage gets them from there.
        reads = binding != "early" and not local and not declared.forwards
        creates = {} if local else self._downloads.of_jobs(ids, storage, declared if reads else None)
        ready = tuple(id_ for id_ in ids if id_ not in creates) if reads else ids if local else ()
        staged = tuple(id_ for id_ in ids if id_ in creates) if reads else () if local else ids
        for part, target in ((ready, JobState.ACTIVATED), (staged, JobState.ASSIGNED)):
            if part:
                move = Move(
                    kind="job",
                    ids=part,
                    source=JobState.DEFINED,
                    target=target,
                    cause=cause,
                    changes={"queue": name},
                    creates=creates if part is staged else {},
                    claims=claims,
                    choice=len(self._choices),
                    binding=binding,
                    takers=takers,
                )
                self._moves.append(move)

    def suspend(self, group: Group, cause: str, until: float) -> tuple[int, ...]:
        """Make the group's jobs PENDING until a time (s since 1970). Return their ids in order of the moves.

        If an input of a job cannot be brought to any queue, its error names the file.
        """
        ids: list[int] = []
        for error, jobs in self._by_error(group).items():
            changes: dict[str, Value] = {"wake_at": until, "error": error} if error else {"wake_at": until}
            self._moves.append(
                Move(
                    kind="job",
                    ids=tuple(jobs),
                    source=JobState.DEFINED,
                    target=JobState.PENDING,
                    cause=cause,
                    changes=changes,
                    choice=len(self._choices),
                )
            )
            ids += jobs
        return tuple(ids)

    def explain(self, choice: Packable | Choice) -> None:
        """Add the choice for the moves since the last one."""
        self._choices.append(choice)

    def decision(self, facts: Callable[[], Facts] | None = None) -> Decision:
        """Return the whole decision of the step ``broker``. ``facts`` returns the facts that its packable
        choices share."""
        choices: Any = self._choices
        return Decision(
            step=BROKER,
            time=self._world.time,
            seed=self._world.seed,
            changes=tuple(self._moves),
            choices=Choices(facts, choices) if facts else tuple(choices),
        )

    def _by_error(self, group: Group) -> Mapping[str, Sequence[int]]:
        queued = self._queues.storage
        # Almost always true. Then jobs need not be checked one by one.
        if all(self._queues.reach.of(holders)[queued].any() for holders, _, _ in group.inputs):
            return {"": group.jobs}
        jobs: dict[str, list[int]] = defaultdict(list)
        for number in group.jobs:
            jobs[self._downloads.missing(number, self._queues)].append(number)
        return dict(sorted(jobs.items()))


class Downloads:
    """The transfers that jobs need before they can start at a queue.

    If several jobs read one file, each carries its transfer, because the commit may refuse any of them. The
    commit makes it once.
    """

    def __init__(self, world: World, sources: Sources) -> None:
        self._world = world
        self._sources = sources
        self._downloads: dict[tuple[int, str, str], NewTransfer] = {}
        self._shares: dict[int, tuple[str, int]] = {}
        self._runs: dict[tuple[int, JobKind, str, int, str], float] = {}

    @cached_property
    def _sizes(self) -> Mapping[str, int]:
        return {file.name: file.size for file in self._world.files}

    @cached_property
    def _mean_runs(self) -> Mapping[str, float | None]:
        return {report.queue: report.mean_run for report in self._world.queue_reports}

    @cached_property
    def _jobs(self) -> Mapping[int, Job]:
        return {job.id: job for job in self._world.jobs}

    @cached_property
    def _tasks(self) -> Mapping[int, Task]:
        return {task.id: task for task in self._world.tasks}

    @cached_property
    def _holders(self) -> Mapping[str, set[str]]:
        holders: dict[str, set[str]] = defaultdict(set)
        for replica in self._world.replicas:
            holders[replica.file].add(replica.storage)
        return holders

    def of_jobs(
        self, ids: Sequence[int], storage: str, reader: Queue | None = None
    ) -> dict[int, tuple[Creation, ...]]:
        """Return a download, from its best source, for each input of a job that the storage lacks.

        With a ``reader`` queue, jobs that may leave it get no download if their pilot may read all inputs
        remotely (E3). If several of these jobs read a file, it is delivered once for all of them.
        """
        downloads: dict[int, tuple[Creation, ...]] = {}
        lacking = {number: self._lacking(self._jobs[number], storage) for number in ids}
        uses = Counter(name for names in lacking.values() for name in names) if reader else Counter[str]()
        for number, missing in lacking.items():
            alone = reader is not None and all(uses[name] == 1 for name in missing)
            if missing and not (alone and reader and self._is_readable(self._jobs[number], missing, reader)):
                job = self._jobs[number]
                downloads[number] = tuple(self._download(job, name, storage) for name in missing)
        return downloads

    def _lacking(self, job: Job, storage: str) -> list[str]:
        # Each file once, in the job's order, so that the decision is the same byte for byte.
        return [name for name in dict.fromkeys(job.inputs) if storage not in self._holders_of(name)]

    def _is_readable(self, job: Job, missing: Sequence[str], reader: Queue) -> bool:
        """Return whether a pilot of a queue may read these files remotely for a job (E3).

        The links must have a known rate, and reading must not take longer than the run.
        """
        if job.attempt > 1:
            # Do not expose a job that was tried before to slow links again.
            return False
        seconds = 0.0
        for name in missing:
            source = self._sources.promises(self._holders_of(name), reader.storage)
            rate = self._sources.rate(source.site, reader.site) if source else None
            if not rate:
                return False
            seconds += self._sizes[name] / MEGABYTE / rate
        return seconds <= self._run(job, reader)

    def _run(self, job: Job, queue: Queue) -> float:
        """Return the seconds that a job is expected to run at a queue; the same for all similar jobs."""
        key = job.task, job.kind, job.changes, job.events, queue.name
        if key not in self._runs:
            mean = self._mean_runs.get(queue.name)
            self._runs[key] = expected_run(self._tasks[job.task], job, queue, mean)
        return self._runs[key]

    def missing(self, number: int, queues: QueueColumns) -> str:
        """Return an error that names the first input of a job that cannot be brought to any queue; empty if
        there is none."""
        for name in dict.fromkeys(self._jobs[number].inputs):
            codes = tuple(
                sorted(queues.storages[item] for item in self._holders_of(name) & queues.storages.keys())
            )
            if not queues.reach.of(codes)[queues.storage].any():
                holders = ", ".join(sorted(self._holders_of(name))) or "no storage"
                return f"input {name} cannot be read from anywhere: held by {holders}"
        return ""

    def _holders_of(self, name: str) -> set[str]:
        return self._holders.get(name, set())

    def _download(self, job: Job, name: str, storage: str) -> NewTransfer:
        # One per task, because the task determines share and priority. The commit merges transfers of one
        # file (D2).
        key = (job.task, name, storage)
        download = self._downloads.get(key)
        if download is None:
            share, priority = self._share(job.task)
            download = self._downloads[key] = NewTransfer(
                file=name,
                source=self._sources.ranked(self._holders_of(name), storage)[0],
                destination=storage,
                direction="download",
                share=share,
                priority=priority,
                share_priority=base_priority(share, self._world.federation.staging),
            )
        return download

    def _share(self, number: int) -> tuple[str, int]:
        """Return the transfer share of a task's downloads, and their priority in it (D1, D2)."""
        if number not in self._shares:
            task, constants = self._tasks[number], self._world.federation.staging
            share = share_of(task.owner, "download", constants, task.spec.transfer_sub_share)
            priority = transfer_priority(share, task.spec.transfer_priority, constants)
            self._shares[number] = share, priority
        return self._shares[number]
