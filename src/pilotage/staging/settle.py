"""What became of transfers, told to the jobs that wait for them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pilotage.model.decision import Change, Creation, Decision, Move
from pilotage.model.states import JobState, TransferState
from pilotage.model.work import File, Job, NewTransfer, Replica, Task, Transfer
from pilotage.model.world import World

from .groups import move
from .shares import share_of, transfer_priority

SCRATCH = ".scratch"
Failures = list[tuple[Job, str]]


def scratch_path(job: int, attempt: int, name: str = "") -> str:
    """Where an attempt leaves an output below its queue's storage; without a name, the attempt's folder."""
    return f"{SCRATCH}/{job}.{attempt}/{name}".rstrip("/")


def settle(world: World) -> Decision:
    """Moves on the jobs whose transfers have ended, and asks for the uploads of those whose payload has.

    - FINISHING transfers are DONE and their replicas recorded.
    - ASSIGNED jobs whose inputs are all at their queue's storage become ACTIVATED. Where a transfer of an
      input failed, the job is brokered again as its next attempt, so that one whose inputs cannot be
      brought anywhere ends after ``max_attempts``.
    - HOLDING jobs become TRANSFERRING, each output an upload out of the scratch area to the nucleus. Uploads
      that a former attempt left behind are cancelled first. Jobs without outputs are ready at once.
    - TRANSFERRING jobs whose outputs are all under their final names are FINISHED, or MERGING where the
      task merges. Where an upload failed, the job fails, its other uploads are cancelled, and it is tried
      again while attempts remain.
    """
    facts = _Facts(world)
    changes: list[Change] = [*_done(facts)]
    failures: Failures = []
    changes += _stage_in(facts, failures)
    changes += _stage_out(facts, failures)
    changes += _arrived(facts, failures)
    changes += _failed(facts, failures)
    return Decision(step="staging.settle", time=world.time, seed=world.seed, changes=tuple(changes))


@dataclass(slots=True)
class _Facts:
    """The world by name. ``holders`` counts FINISHING transfers as replicas; ``live`` are not there yet."""

    world: World
    tasks: dict[int, Task] = field(init=False)
    queue_storages: dict[str, str] = field(init=False)
    outputs: dict[int, list[File]] = field(init=False)
    holders: dict[str, set[str]] = field(init=False)
    live: dict[str, list[Transfer]] = field(init=False)
    failed: dict[str, list[Transfer]] = field(init=False)

    def __post_init__(self) -> None:
        self.tasks = {task.id: task for task in self.world.tasks}
        self.queue_storages = {queue.name: queue.storage for queue in self.world.federation.queues}
        self.outputs = defaultdict(list)
        for file in sorted(self.world.files, key=lambda file: file.name):
            if file.job is not None:
                self.outputs[file.job].append(file)
        self.holders, self.live, self.failed = defaultdict(set), defaultdict(list), defaultdict(list)
        for replica in self.world.replicas:
            self.holders[replica.file].add(replica.storage)
        for transfer in sorted(self.world.transfers, key=lambda transfer: transfer.id):
            if transfer.state is TransferState.FINISHING:
                self.holders[transfer.file].add(transfer.destination)
            elif transfer.state in (TransferState.QUEUED, TransferState.DELIVERING):
                self.live[transfer.file].append(transfer)
            elif transfer.state is TransferState.FAILED:
                self.failed[transfer.file].append(transfer)

    def jobs(self, state: JobState) -> list[Job]:
        return sorted((job for job in self.world.jobs if job.state is state), key=lambda job: job.id)

    def failure(self, job: Job, names: Iterable[str], destination: str | None = None) -> str:
        """Why the job cannot get one of these files to the destination, or empty.

        A transfer that failed before the job came into its state is not what the job waits for.
        """
        for name in names:
            if any(destination in (None, transfer.destination) for transfer in self.live[name]):
                continue
            for transfer in self.failed[name]:
                if destination in (None, transfer.destination) and transfer.since >= job.since:
                    return f"{name} could not be brought to {transfer.destination}: {transfer.error}"
        return ""


def _done(facts: _Facts) -> tuple[Move, ...]:
    finishing = [t for t in facts.world.transfers if t.state is TransferState.FINISHING]
    replicas: dict[int, tuple[Creation, ...]] = {
        t.id: (Replica(file=t.file, storage=t.destination),) for t in finishing
    }
    return move(finishing, TransferState.DONE, "replica recorded", creates=replicas)


def _stage_in(facts: _Facts, failures: Failures) -> tuple[Move, ...]:
    ready: list[Job] = []
    for job in facts.jobs(JobState.ASSIGNED):
        storage = facts.queue_storages.get(job.queue)
        if storage is None:
            failures.append((job, _no_queue(job)))
            continue
        missing = [name for name in job.inputs if storage not in facts.holders[name]]
        if not missing:
            ready.append(job)
        elif error := facts.failure(job, missing, storage):
            failures.append((job, error))
    return move(ready, JobState.ACTIVATED, "inputs arrived", changes={"error": ""})


def _stage_out(facts: _Facts, failures: Failures) -> list[Move]:
    empty: list[Job] = []
    leaving: list[Job] = []
    uploads: dict[int, tuple[Creation, ...]] = {}
    for job in facts.jobs(JobState.HOLDING):
        if not facts.outputs[job.id]:
            empty.append(job)
        elif job.queue not in facts.queue_storages:
            failures.append((job, _no_queue(job)))
        else:
            leaving.append(job)
            uploads[job.id] = tuple(_upload(facts, job, file) for file in facts.outputs[job.id])
    cause = "outputs on the way to the nucleus"
    return [
        *_ready(facts, empty, "no outputs"),
        *_cancelled(facts, leaving, "of a former attempt"),
        *move(leaving, JobState.TRANSFERRING, cause, creates=uploads),
    ]


def _upload(facts: _Facts, job: Job, file: File) -> NewTransfer:
    task, constants = facts.tasks[job.task], facts.world.federation.staging
    share = share_of(task.owner, "upload", constants)
    return NewTransfer(
        file=file.name,
        source=facts.queue_storages[job.queue],
        source_path=scratch_path(job.id, job.attempt, file.name.removeprefix(f"tasks/{task.id}/{job.id}/")),
        destination=destination_of(facts.world, task, job.queue),
        direction="upload",
        share=share,
        priority=transfer_priority(share, task.spec.transfer_priority, constants),
    )


def destination_of(world: World, task: Task, queue: str) -> str:
    """Where a task's outputs go: by name the first storage of its nucleus that takes wide area writes.

    The queue's own storage where the queue is at the nucleus, or there is no nucleus or none that does.
    """
    home = next(candidate for candidate in world.federation.queues if candidate.name == queue)
    if task.spec.nucleus in ("", home.site):
        return home.storage
    writable = (
        storage.name
        for storage in world.federation.storages
        if storage.site == task.spec.nucleus and "write_wan" not in storage.blacklisted
    )
    return min(writable, default=home.storage)


def _arrived(facts: _Facts, failures: Failures) -> list[Move]:
    """Outputs count wherever they are: each has one upload, and the federation may have changed since."""
    ready: list[Job] = []
    for job in facts.jobs(JobState.TRANSFERRING):
        names = [file.name for file in facts.outputs[job.id]]
        missing = [name for name in names if not facts.holders[name] or facts.live[name]]
        if not missing:
            ready.append(job)
        elif error := facts.failure(job, missing):
            failures.append((job, error))
    return _ready(facts, ready, "outputs arrived")


def _ready(facts: _Facts, jobs: Sequence[Job], cause: str) -> list[Move]:
    merging = {job.id for job in jobs if job.kind != "merge" and facts.tasks[job.task].spec.merge}
    return [
        *move((job for job in jobs if job.id not in merging), JobState.FINISHED, cause),
        *move((job for job in jobs if job.id in merging), JobState.MERGING, cause),
    ]


def _cancelled(facts: _Facts, jobs: Iterable[Job], cause: str) -> list[Move]:
    """Live transfers of these jobs' outputs are nobody's any more."""
    files = [file for job in jobs for file in facts.outputs[job.id]]
    stale = [transfer for file in files for transfer in facts.live[file.name]]
    return [
        one
        for state in (TransferState.QUEUED, TransferState.DELIVERING)
        for one in move(
            (t for t in stale if t.state is state),
            TransferState.CANCELLED,
            f"upload {cause}",
            changes={"ended": facts.world.time},
        )
    ]


def _failed(facts: _Facts, failures: Failures) -> list[Move]:
    """Ends attempts, each with its error, and begins the next of those that have any left."""
    again: dict[tuple[JobState, str], list[Job]] = defaultdict(list)
    ended: dict[tuple[JobState, str], list[Job]] = defaultdict(list)
    retried: list[Job] = []
    for job, error in failures:
        remain = job.attempt < facts.tasks[job.task].spec.max_attempts
        started = job.state is not JobState.ASSIGNED
        (again if remain and not started else ended)[job.state, error].append(job)
        if remain and started:
            retried.append(job)
    fresh = {"queue": "", "pilot": None}
    moves = _cancelled(facts, (job for job, _ in failures if job.state is JobState.TRANSFERRING), "given up")
    for (_, error), jobs in sorted(again.items()):
        changes = {**fresh, "error": error}
        moves += move(
            jobs, JobState.DEFINED, "an input cannot be brought", changes=changes, next_attempt=True
        )
    for (_, error), jobs in sorted(ended.items()):
        moves += move(jobs, JobState.FAILED, "staging failed", changes={"error": error})
    return moves + list(
        move(
            retried,
            JobState.DEFINED,
            "tried again",
            changes=fresh,
            next_attempt=True,
            source=JobState.FAILED,
        )
    )


def _no_queue(job: Job) -> str:
    return f"queue {job.queue} is not in the federation any more: its storage cannot be told"
