"""Move jobs to their next state after their transfers, and request uploads."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pilotage.model.documents.decision import Creation, Decision, Move, Value
from pilotage.model.documents.moves import JobMoves, Wait, moves_of
from pilotage.model.documents.world import World
from pilotage.model.records.failures import Failure, Tries, tries_of
from pilotage.model.records.observations import OF_STORAGES
from pilotage.model.records.publications import NewPublication, is_own
from pilotage.model.records.states import UNFINISHED_TRANSFERS, JobState, TransferState
from pilotage.model.records.transfer_queues import FINISHING
from pilotage.model.records.work import File, Job, NewTransfer, Replica, Task, Transfer
from pilotage.model.rules.destinations import delivery_fault, destination_of_output
from pilotage.model.rules.failed_attempts import FailedAttempts
from pilotage.model.rules.sources import outputs_at
from pilotage.model.rules.transfer_shares import CANCEL_GRACE, base_priority, share_of, transfer_priority
from pilotage.model.values.paths import copy_path, path_in_job, scratch_path
from pilotage.policies.staging.slots import Slots


def settle(world: World) -> Decision:
    """Move jobs to their next state after their transfers, and request uploads after payloads.

    - FINISHING transfers become DONE, with their replicas. Delivered transfers get their slots (D8).
    - ASSIGNED jobs with all inputs at their queue's storage become ACTIVATED. If a transfer of an input
      failed, the job returns to the brokerage as its next attempt. So a job ends after its last attempt if
      its inputs cannot be delivered anywhere. An attempt that a storage failed counts like one at a pilot
      (F4).
    - HOLDING jobs become TRANSFERRING. Each output becomes an upload from the scratch area to the nucleus.
      Uploads left by an earlier attempt are cancelled first. Jobs without outputs need no transfers. A job
      fails if an output would go where its owner may not deliver: only now are the files of folders there.
    - TRANSFERRING jobs with all outputs under their final names become FINISHED, or MERGING if the task
      merges. If an upload failed, the job fails and its other uploads are cancelled. It is retried while
      attempts remain.
    """
    facts = _Facts(world)
    jobs = JobMoves()
    _stage_in(facts, jobs)
    stale = [*_stage_out(facts, jobs), *_arrived(facts, jobs)]
    done = _done(facts)
    slots = Slots(world, FINISHING, leaving=frozenset(id_ for move in done for id_ in move.ids))
    slots.give(slots.parts)
    # Keep this order: old uploads of a file must end before a new one is created.
    changes = (*done, *_cancelled(world, stale), *jobs.gathered(), *slots.changes({}))
    return Decision(
        step="staging.settle", time=world.time, seed=world.seed, changes=changes, notes=slots.notes()
    )


@dataclass(slots=True)
class _Facts:
    """The world's records by file, task and job.

    ``holders`` includes the destinations of FINISHING transfers. ``live`` are transfers that have not
    arrived.
    """

    world: World
    tasks: dict[int, Task] = field(init=False)
    queue_storages: dict[str, str] = field(init=False)
    outputs: dict[int, list[File]] = field(init=False)
    holders: dict[str, set[str]] = field(init=False)
    live: dict[str, list[Transfer]] = field(init=False)
    failed: dict[str, list[Transfer]] = field(init=False)
    failed_attempts: FailedAttempts = field(init=False)

    def __post_init__(self) -> None:
        self.tasks = {task.id: task for task in self.world.tasks}
        self.failed_attempts = FailedAttempts(self.world)
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
            elif transfer.state in UNFINISHED_TRANSFERS:
                self.live[transfer.file].append(transfer)
            elif transfer.state in (TransferState.FAILED, TransferState.CANCELLED):
                self.failed[transfer.file].append(transfer)

    def jobs(self, state: JobState) -> list[Job]:
        return sorted((job for job in self.world.jobs if job.state is state), key=lambda job: job.id)

    def tries(self, job: Job, failed: tuple[Failure, ...] = ()) -> Tries:
        """Return how many attempts of a job count, including the ones that ``failed`` now."""
        guard, tries = self.world.federation.guard, self.tasks[job.task].tries(job)
        return tries_of((*self.world.failures, *failed), job.id, guard, tries)

    def failure(self, job: Job, names: Iterable[str], destination: str | None = None) -> Transfer | None:
        """Return the failed transfer of a file that cannot reach the destination; None if all can.

        A transfer that failed before the job entered its state does not count.
        """
        for name in names:
            if any(destination in (None, transfer.destination) for transfer in self.live[name]):
                continue
            for transfer in self.failed[name]:
                grace = CANCEL_GRACE if transfer.state is TransferState.CANCELLED else 0.0
                if destination in (None, transfer.destination) and transfer.since + grace >= job.since:
                    return transfer
        return None

    def by_storages(self, job: Job, transfer: Transfer) -> tuple[Failure, ...]:
        """Return a failure of the job's attempt if storages are to blame for the end of its transfer (F4)."""
        if transfer.fault not in OF_STORAGES:
            return ()
        error = _error(transfer)
        return (self.failed_attempts.by_storages(job, error),)

    def wait(self, job: Job, failed: tuple[Failure, ...]) -> Wait | None:
        """Return how long a job waits for storages: longer after each attempt that failed by their fault."""
        times = sum(
            failure.job == job.id and failure.kind == "storage" for failure in (*self.world.failures, *failed)
        )
        if not failed:
            return None
        seconds = self.world.federation.staging.open_for(times - 1)
        return Wait(self.world.time + seconds, f"a storage failed it, so it waits {seconds:.0f} s")

    def uploads(self, job: Job) -> list[Transfer]:
        """Return live transfers of a job's outputs."""
        return [transfer for file in self.outputs[job.id] for transfer in self.live[file.name]]


def _done(facts: _Facts) -> tuple[Move, ...]:
    finishing = [t for t in facts.world.transfers if t.state is TransferState.FINISHING]
    instance = facts.world.federation.name
    # A HOLDING job has no uploads yet: an upload of its outputs belongs to an earlier attempt.
    outputs = {file.name for job in facts.jobs(JobState.HOLDING) for file in facts.outputs[job.id]}
    former = [t for t in finishing if t.direction == "upload" and t.file in outputs]
    over = {t.id for t in former}
    good = [t for t in finishing if t.id not in over]
    replicas: dict[int, tuple[Creation, ...]] = {t.id: (_replica(t, instance),) for t in good}
    return (
        *moves_of(good, TransferState.DONE, "replica recorded", creates=replicas),
        *moves_of(former, TransferState.DONE, "of an attempt that is over: no replica"),
    )


def _replica(transfer: Transfer, instance: str) -> Replica:
    """Return the new replica: an output under its own name, or where its task chose; an input as a copy in
    the reserved folder."""
    path = (
        copy_path(instance, transfer.file) if transfer.direction == "download" else transfer.destination_path
    )
    return Replica(file=transfer.file, storage=transfer.destination, path=path)


def _cancelled(world: World, stale: Sequence[Transfer]) -> list[Move]:
    """Cancel uploads of attempts that are over."""
    changes: dict[str, Value] = {"ended": world.time}
    return [
        move
        for state in UNFINISHED_TRANSFERS
        for move in moves_of(
            [transfer for transfer in stale if transfer.state is state],
            TransferState.CANCELLED,
            "upload of an attempt that is over",
            changes=changes,
        )
    ]


def _stage_in(facts: _Facts, moves: JobMoves) -> None:
    for job in facts.jobs(JobState.ASSIGNED):
        storage = facts.queue_storages.get(job.queue)
        missing = [name for name in job.inputs if storage not in facts.holders[name]]
        if storage is None:
            _broker_again(facts, moves, job, _no_queue(job))
        elif not missing:
            cause = "inputs arrived"
            moves.add(job, job.state, JobState.ACTIVATED, cause=cause, changes={"error": ""})
        elif transfer := facts.failure(job, missing, storage):
            if failed := facts.by_storages(job, transfer):
                _fail(facts, moves, job, _error(transfer), failed, "inputs cannot be brought")
            else:
                _broker_again(facts, moves, job, _error(transfer))


def _error(transfer: Transfer) -> str:
    reason = transfer.error or f"its transfer is {transfer.state}"
    return f"{transfer.file} could not be brought to {transfer.destination}: {reason}"


def _broker_again(facts: _Facts, moves: JobMoves, job: Job, error: str) -> None:
    """Return a job to the brokerage as its next attempt, though it has not started.

    The number of attempts limits the repetitions.
    """
    moves.retake(job, job.state, facts.tries(job), "inputs cannot be brought", {"error": error})


def _fail(
    facts: _Facts,
    moves: JobMoves,
    job: Job,
    error: str,
    failed: tuple[Failure, ...] = (),
    cause: str = "outputs cannot be brought",
) -> None:
    tries, wait = facts.tries(job, failed), facts.wait(job, failed)
    moves.fail(job, job.state, tries, cause, {"error": error}, failed, wait)


def _stage_out(facts: _Facts, moves: JobMoves) -> list[Transfer]:
    """Request uploads of HOLDING jobs. Return the uploads of earlier attempts, which would block them."""
    stale: list[Transfer] = []
    for job in facts.jobs(JobState.HOLDING):
        outputs = facts.outputs[job.id]
        stale += facts.uploads(job)
        if not outputs:
            moves.add(job, job.state, _ready(facts, job), cause="no outputs")
        elif job.queue not in facts.queue_storages:
            _fail(facts, moves, job, _no_queue(job))
        elif fault := _refused(facts, job, outputs):
            _fail(facts, moves, job, fault)
        else:
            uploads = tuple(_upload(facts, job, file) for file in outputs)
            cause = "outputs on the way to their storage"
            moves.add(job, job.state, JobState.TRANSFERRING, cause=cause, creates=uploads)
    return stale


def _refused(facts: _Facts, job: Job, outputs: Iterable[File]) -> str:
    """Return why a job's outputs may not go where its task wants them; empty if they may."""
    task = facts.tasks[job.task]
    if not task.spec.destinations:
        return ""
    storages = {storage.name: storage for storage in facts.world.federation.storages}
    paths = [path_in_job(file.name) for file in outputs]
    taken: dict[tuple[str, str], str] = {}
    for path in paths:
        place = destination_of_output(task.spec.destinations, path)
        if not place:
            continue
        storage = storages.get(place[0])
        if storage and (fault := delivery_fault(storage, place[1], task.owner)):
            return fault
        if (other := taken.setdefault(place, path)) != path:
            return f"outputs {other} and {path} would both be {place[1]} of {place[0]}"
    return ""


def _upload(facts: _Facts, job: Job, file: File) -> NewTransfer:
    task, constants = facts.tasks[job.task], facts.world.federation.staging
    share = share_of(task.owner, "upload", constants, task.spec.transfer_sub_share)
    instance, path = facts.world.federation.name, path_in_job(file.name)
    home = destination_of(facts.world, task, job.queue), ""
    destination, destination_path = destination_of_output(task.spec.destinations, path) or home
    return NewTransfer(
        file=file.name,
        source=facts.queue_storages[job.queue],
        source_path=scratch_path(instance, job.id, job.attempt, path),
        destination=destination,
        destination_path=destination_path,
        direction="upload",
        share=share,
        priority=transfer_priority(share, task.spec.transfer_priority, constants),
        share_priority=base_priority(share, constants),
    )


def destination_of(world: World, task: Task, queue: str) -> str:
    """Return the storage for a task's outputs: the first storage of its nucleus that accepts remote writes.

    A storage with a tripped circuit breaker is the last choice (F4). Return the queue's storage if that is at
    the nucleus, if there is no nucleus, or if no storage there qualifies.
    """
    home = next(candidate for candidate in world.federation.queues if candidate.name == queue)
    sites = {storage.name: storage.site for storage in world.federation.storages}
    if task.spec.nucleus in ("", sites[home.storage]):
        return home.storage
    outputs = outputs_at(world.federation, task.spec.nucleus)
    tripped = {breaker.place[1] for breaker in world.storage_breakers if not breaker.place[0]}
    open_ones = [item.name for item in outputs if "write_wan" not in item.blacklisted]
    return next(iter(sorted(open_ones, key=lambda name: name in tripped)), home.storage)


def _arrived(facts: _Facts, moves: JobMoves) -> list[Transfer]:
    """Move TRANSFERRING jobs on. Return the other uploads of jobs with a failed upload.

    Outputs count at any storage: each has one upload, and the federation may have changed since. Results of
    an earlier attempt do not count while this attempt's upload is active, or if it failed.
    """
    stale: list[Transfer] = []
    for job in facts.jobs(JobState.TRANSFERRING):
        names = [file.name for file in facts.outputs[job.id]]
        if transfer := facts.failure(job, names):
            stale += facts.uploads(job)
            _fail(facts, moves, job, _error(transfer), facts.by_storages(job, transfer))
        elif all(facts.holders[name] and not facts.live[name] for name in names):
            ready = _ready(facts, job)
            published = _publications(facts, job) if ready is JobState.FINISHED else ()
            moves.add(job, job.state, ready, cause="outputs arrived", creates=published)
    return stale


def _publications(facts: _Facts, job: Job) -> tuple[NewPublication, ...]:
    """Return requests to register each output of a successful job in its task's dataset.

    They belong to the move that ends the job, so no later attempt can change the outputs. A dataset of
    Pilotage's own catalogue is made as a whole, at the end of the task.
    """
    dataset = facts.tasks[job.task].spec.output_dataset
    if is_own(dataset):
        return ()
    return tuple(
        NewPublication(task=job.task, dataset=dataset, asked=facts.world.time, file=file.name)
        for file in facts.outputs[job.id]
    )


def _ready(facts: _Facts, job: Job) -> JobState:
    merged = job.kind != "merge" and facts.tasks[job.task].spec.merge is not None
    return JobState.MERGING if merged else JobState.FINISHED


def _no_queue(job: Job) -> str:
    return f"queue {job.queue} is not in the federation any more: its storage is unknown"
