"""Hand a pilot that asks for work the jobs of the highest claim (P13)."""

from collections import defaultdict
from collections.abc import Sequence

from pilotage.agent.wire import JobInput, JobOrder, MatchAnswer, Work
from pilotage.flow.errors import PilotGone
from pilotage.flow.runtime import Runtime
from pilotage.model.federation import Federation, Queue
from pilotage.model.paths import scratch_path
from pilotage.model.states import LIVE_PILOTS, JobState
from pilotage.model.work import File, Job, JobKind, Pilot, Task
from pilotage.model.world import MatchRequest, World
from pilotage.pilots import matcher

PATIENCE = 2.0
"""Seconds that a pilot waits for its turn; then it is told to ask again, so that reports get through."""

TRIES = 3


def match(
    runtime: Runtime, pilot: int, cores: int, memory: float, walltime: float, max_jobs: int
) -> MatchAnswer:
    """Hand a pilot what it can run now, nothing if there is nothing. Raises :class:`PilotGone`."""
    store = runtime.store
    record = store.queries.pilot(pilot)
    if record is None or record.state not in LIVE_PILOTS:
        raise PilotGone(pilot)
    request = _request(record, cores, memory, walltime, max_jobs)
    if not runtime.matching.acquire(timeout=PATIENCE):
        return _answer(store.federation(), ())
    try:
        for _ in range(TRIES):
            world = store.snapshots.for_match(runtime.clock(), runtime.seeds(), (request,))
            given, handed_back = _commit(runtime, world, pilot)
            if given or not handed_back:
                break
    finally:
        runtime.matching.release()
    return _answer(world.federation, _works(world, request.queue, given))


def _request(pilot: Pilot, cores: int, memory: float, walltime: float, max_jobs: int) -> MatchRequest:
    return MatchRequest(
        pilot=pilot.id,
        queue=pilot.queue,
        kind=pilot.kind,
        owner=pilot.owner,
        cores=cores,
        memory=memory,
        walltime=walltime,
        max_jobs=max_jobs,
    )


def _commit(runtime: Runtime, world: World, pilot: int) -> tuple[set[int], int]:
    decision = matcher.match(world)
    committed = runtime.store.commit(decision, f"pilot:{pilot}")
    given = {
        id_
        for change, ids in zip(decision.changes, committed.accepted, strict=True)
        if getattr(change, "target", None) == JobState.SENT
        for id_ in ids
    }
    return given, committed.handed_back


def lease(federation: Federation) -> float:
    """How long a pilot may run on without a report, in s: well below the time after which it is given up."""
    return federation.timeouts.heartbeat * 0.6


def _answer(federation: Federation, works: tuple[Work, ...]) -> MatchAnswer:
    return MatchAnswer(
        lease=lease(federation),
        heartbeat=federation.loops.heartbeat,
        idle=federation.loops.pilot_idle,
        works=works,
    )


def _works(world: World, queue_name: str, given: set[int]) -> tuple[Work, ...]:
    if not given:
        return ()
    tasks = {task.id: task for task in world.tasks}
    files = {file.name: file for file in world.files}
    queue = next(queue for queue in world.federation.queues if queue.name == queue_name)
    groups: dict[tuple[int, JobKind], list[Job]] = defaultdict(list)
    for job in world.jobs:
        if job.id in given:
            groups[job.task, job.kind].append(job)
    return tuple(
        _work(
            world.federation,
            tasks[task],
            kind,
            queue,
            [_order(world.federation.name, job, files) for job in jobs],
        )
        for (task, kind), jobs in sorted(groups.items())
    )


def _order(instance: str, job: Job, files: dict[str, File]) -> JobOrder:
    inputs = tuple(JobInput(name, files[name].size, files[name].checksum) for name in job.inputs)
    return JobOrder(job.id, job.attempt, scratch_path(instance, job.id, job.attempt), inputs)


def _work(federation: Federation, task: Task, kind: JobKind, queue: Queue, jobs: Sequence[JobOrder]) -> Work:
    spec, asked = task.expected(kind), task.spec.for_job(kind)
    storage = next(storage for storage in federation.storages if storage.name == queue.storage)
    return Work(
        task=task.id,
        kind=kind,
        command=spec.command,
        environment=dict(spec.environment),
        payload_files=bool(spec.payload_files),
        cores=max(1, spec.cores),
        memory=spec.memory,
        memory_limit=task.limit(kind, asked.memory, queue.max_memory),
        walltime=task.limit(kind, asked.walltime, queue.max_walltime),
        workdir=queue.max_workdir,
        outputs=spec.outputs,
        storage_url=storage.url,
        storage_options=dict(storage.options),
        jobs=tuple(jobs),
    )
