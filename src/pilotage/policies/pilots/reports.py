"""Process the reports of pilots on their jobs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pilotage.model.circuit_breakers.empty_pilots import CONTAINERS, GPUS
from pilotage.model.documents.decision import Change, Creation, Decision, Forget, Move, Touch, Value
from pilotage.model.documents.moves import AS_BEFORE, JobMoves, NextAttempt, Wait
from pilotage.model.documents.world import Heartbeat, Output, Report, World
from pilotage.model.records.failures import Failure, Tries, outweighed, tries_of
from pilotage.model.records.logs import KeptLog, LogKey
from pilotage.model.records.states import AT_A_PILOT, DONE_JOBS, WAITING_PILOTS, JobState, PilotState
from pilotage.model.records.work import File, Job, Pilot, Replica, Requirements, Task
from pilotage.model.rules.failed_attempts import FailedAttempts
from pilotage.model.rules.job_payload import payload_of
from pilotage.model.rules.retry_causes import next_attempt
from pilotage.model.values.identity import Identity
from pilotage.model.values.outputs import matching_outputs, missing
from pilotage.model.values.paths import output_name
from pilotage.model.values.scopes import identifier, name_of, personal_scope
from pilotage.model.values.step_names import MATCH
from pilotage.policies.pilots.storage_faults import StorageFaults

FAILED, LOST = "failed at its pilot", "an input was lost: not as recorded at its storage"
"""Causes of a failure in a job's history. Keep them few: every process caches them."""

Attempt = tuple[int, int]


def receive(world: World) -> Decision:
    """Apply pilots' reports in order. A call with reports counts as a heartbeat.

    Ignore reports on attempts of other pilots; ``stops`` names them. If a pilot neither holds nor reports one
    of its attempts, the attempt is lost. If it had started, it fails; if it was only sent, the job returns to
    the brokerage as the next attempt. Wait for a heartbeat after sending, because a delayed call may not know
    the attempt yet.
    """
    jobs: dict[int, list[Job]] = defaultdict(list)
    for job in world.jobs:
        if job.state in AT_A_PILOT and job.pilot is not None:
            jobs[job.pilot].append(job)
    heartbeats = {heartbeat.pilot: heartbeat for heartbeat in world.heartbeats}
    hearing = _Hearing(world)
    for pilot in world.pilots:
        hearing.hear(pilot, jobs[pilot.id], heartbeats[pilot.id])
    changed: tuple[Change, ...] = (
        *called_home(world.time, *world.pilots),
        *hearing.moves.gathered(),
        *hearing.rates(),
        *hearing.forgotten(),
    )
    return Decision(step="report", time=world.time, seed=world.seed, changes=changed)


def accept(world: World) -> Decision:
    """Apply reports that pilots left in their sites' spools. They are not heartbeats: these pilots have
    ended.

    Attempts without a report stay as they are. Ignore reports on attempts of other pilots.
    """
    hearing = _Hearing(world)
    heartbeats = {heartbeat.pilot: heartbeat for heartbeat in world.heartbeats}
    for pilot in world.pilots:
        hearing.hear_reports(pilot, [job for job in world.jobs if _is_held(job, pilot)], heartbeats[pilot.id])
    changed: tuple[Change, ...] = (*hearing.moves.gathered(), *hearing.forgotten())
    return Decision(step="report", time=world.time, seed=world.seed, changes=changed)


def stops(world: World) -> dict[int, list[Attempt]]:
    """Return the attempts that each pilot must stop: it holds or reports them, but they are not its attempts
    now.

    Leave out attempts that it finished, because their outputs may still be in its scratch area.
    """
    attempts: dict[int, set[Attempt]] = defaultdict(set)
    for job in world.jobs:
        if job.pilot is not None and (job.state in AT_A_PILOT or job.state in DONE_JOBS):
            attempts[job.pilot].add((job.id, job.attempt))
    heartbeats = {heartbeat.pilot: heartbeat for heartbeat in world.heartbeats}
    return {pilot.id: sorted(heartbeats[pilot.id].named - attempts[pilot.id]) for pilot in world.pilots}


def owned(world: World, logs: Iterable[KeptLog]) -> list[tuple[KeptLog, Identity]]:
    """Return the logs of the pilot and of its attempts, with the owner of each."""
    (pilot,) = world.pilots
    tasks = {task.id: task for task in world.tasks}
    owners = {
        LogKey(kind="job", record=job.id, attempt=job.attempt): tasks[job.task].owner
        for job in _attempts_of_pilot(world).values()
    }
    owners[LogKey(kind="pilot", record=pilot.id)] = pilot.owner
    return [(log, owners[log.key]) for log in logs if log.key in owners]


def _attempts_of_pilot(world: World) -> dict[Attempt, Job]:
    """Return the pilot's attempts, including finished ones."""
    (pilot,) = world.pilots
    return {
        (job.id, job.attempt): job
        for job in world.jobs
        if _is_held(job, pilot) or (job.pilot == pilot.id and job.state in DONE_JOBS)
    }


def calls(time: float, seed: int, *pilots: Pilot) -> Decision:
    """Record that pilots called for work: pilots that waited in a batch system now run."""
    return Decision(step=MATCH, time=time, seed=seed, changes=called_home(time, *pilots))


def called_home(time: float, *pilots: Pilot) -> tuple[Change, ...]:
    """Return changes for pilots that called: they run, with a heartbeat at ``time``."""
    by_state: dict[PilotState, list[int]] = defaultdict(list)
    for pilot in pilots:
        by_state[pilot.state].append(pilot.id)
    changes: dict[str, Value] = {"heartbeat": time}
    return tuple(_called(state, tuple(ids), changes) for state, ids in by_state.items())


def _called(state: PilotState, ids: tuple[int, ...], changes: Mapping[str, Value]) -> Change:
    if state not in WAITING_PILOTS:
        return Touch(kind="pilot", ids=ids, changes=changes)
    return Move(
        kind="pilot",
        ids=ids,
        source=state,
        target=PilotState.RUNNING,
        cause="called home",
        changes=changes,
    )


def _is_held(job: Job, pilot: Pilot) -> bool:
    return job.pilot == pilot.id and job.state in AT_A_PILOT


class _Hearing:
    """Processes reports: collects the resulting moves, and the state of each of the pilot's jobs."""

    def __init__(self, world: World) -> None:
        self.moves = JobMoves()
        self._lost: set[tuple[str, str]] = set()
        self._rates: dict[Attempt, float] = {}
        self._storages = {queue.name: queue.storage for queue in world.federation.queues}
        self._storage_faults = StorageFaults(world, self._storages)
        self._failed_attempts = FailedAttempts(world)
        self._world = world
        self._speaking = world.failures
        self._by_queue: dict[str, list[Failure]] = {}
        self._tasks = {task.id: task for task in world.tasks}

    def hear(self, pilot: Pilot, jobs: Sequence[Job], heartbeat: Heartbeat) -> None:
        """Process one pilot's whole message, given the jobs that the store has with it."""
        self.hear_reports(pilot, jobs, heartbeat)
        self._miss(heartbeat)

    def hear_reports(self, pilot: Pilot, jobs: Sequence[Job], heartbeat: Heartbeat) -> None:
        """Process one pilot's reports, but not the lack of any."""
        self._pilot = pilot
        self._jobs = {(job.id, job.attempt): job for job in jobs}
        self._states = {job.id: job.state for job in jobs}
        for report in heartbeat.reports:
            self._report(report)

    def _report(self, report: Report) -> None:
        """Process one report; move the job also through states that the report skipped."""
        job = self._jobs.get((report.job, report.attempt))
        if job is None or self._states[job.id] not in AT_A_PILOT:
            return
        if report.state in ("done", "failed"):
            self._rates.pop((job.id, job.attempt), None)
        if report.state == "failed":
            if job.queue in self._storages:
                lost = (file for file in job.inputs if name_of(file) in report.lost_inputs)
                self._lost |= {(file, self._storages[job.queue]) for file in lost}
            faults = self._storage_faults.failure(self._pilot, job, report)
            following = self._following(job, report)
            failed = self._failed_attempts.of_report(job, self._pilot, report, grows=bool(following.columns))
            self._note(failed)
            news: tuple[Creation, ...] = (failed, *faults)
            error = report.error or "failed without saying why"
            cause = LOST if report.lost_inputs else FAILED
            waits = self._storage_faults.wait(job, faults)
            metrics = _metrics(report, self._pilot)
            self._fail(job, error, metrics, news, waits, cause, following)
        elif report.state == "starting":
            if self._states[job.id] == JobState.SENT:
                self._step(job, JobState.STARTING, "its pilot prepares it")
        else:
            if self._states[job.id] != JobState.RUNNING:
                begun = {"started": self._world.time, "disk_io": None}
                self._step(job, JobState.RUNNING, "its payload runs", begun)
            self._storage_faults.served(job, report)
            if report.state == "done":
                self._done(job, report)
            elif report.disk_io is not None:
                self._rates[job.id, job.attempt] = report.disk_io

    def rates(self) -> Iterator[Touch]:
        """Yield the latest disk I/O of running attempts (B12)."""
        for (job, attempt), rate in sorted(self._rates.items()):
            yield Touch(kind="job", ids=(job,), attempts=(attempt,), changes={"disk_io": rate})

    def forgotten(self) -> tuple[Forget, ...]:
        """Return replicas to forget, because they were not at their recorded place, and failures of storages
        to forget, because a read or write succeeded.

        The next attempts use other replicas.
        """
        if not self._lost:
            return self._storage_faults.forgotten()
        replicas = (Replica(file=file, storage=storage) for file, storage in sorted(self._lost))
        return (Forget(replicas=tuple(replicas)), *self._storage_faults.forgotten())

    def _miss(self, heartbeat: Heartbeat) -> None:
        """Fail attempts that the pilot had, and does not mention now.

        Skip jobs sent after the pilot made this call, because the call may arrive late or twice.
        """
        known_until = self._world.time if heartbeat.heard is None else min(heartbeat.heard, self._world.time)
        for attempt in sorted(self._jobs.keys() - heartbeat.named):
            job = self._jobs[attempt]
            grown = known_until - job.since > self._world.federation.loops.heartbeat
            if not grown:
                continue
            if job.state is JobState.SENT:
                self.moves.retake(job, job.state, self._tries(job), "its pilot does not know of it")
            else:
                lost = "lost by its pilot"
                failed = self._failed_attempts.lost(job, self._pilot, lost)
                self._note(failed)
                self._fail(job, lost, {}, (failed,))

    def _done(self, job: Job, report: Report) -> None:
        """Process a successful payload: next its outputs are uploaded; a job without outputs is finished."""
        task = self._tasks[job.task]
        payload = payload_of(task, job, task.spec.for_job(job.kind))
        expected = payload.outputs
        stored = {output.name: output for output in report.outputs}
        if lacks := missing(expected, payload.optional_outputs, stored):
            plural = "s" if len(lacks) > 1 else ""
            self._fail(job, f"output{plural} {', '.join(lacks)} missing", _metrics(report, self._pilot))
            return
        target = JobState.HOLDING
        if not expected:
            merged = task.spec.merge is not None and job.kind != "merge"
            target = JobState.MERGING if merged else JobState.FINISHED
        ending: dict[str, Value] = {"ended": self._world.time, "error": ""}
        instance = self._world.federation.name
        files = tuple(_file(instance, task, job, stored[name]) for name in matching_outputs(expected, stored))
        news: tuple[Creation, ...] = (*files, *self._outweighed(task, job.queue))
        self._step(job, target, "payload done", ending, news, _metrics(report, self._pilot))

    def _step(
        self,
        job: Job,
        target: JobState,
        cause: str,
        changes: Mapping[str, Value] | None = None,
        creates: tuple[Creation, ...] = (),
        job_changes: Mapping[str, Value] | None = None,
    ) -> None:
        source = self._states[job.id]
        self.moves.add(
            job, source, target, cause=cause, changes=changes, job_changes=job_changes, creates=creates
        )
        self._states[job.id] = target

    def _fail(
        self,
        job: Job,
        error: str,
        metrics: Mapping[str, Value],
        creates: tuple[Creation, ...] = (),
        wait: Wait | None = None,
        cause: str = FAILED,
        following: NextAttempt = AS_BEFORE,
    ) -> None:
        changes = {"ended": self._world.time, "error": error, **metrics}
        state, tries = self._states[job.id], self._tries(job)
        self.moves.fail(job, state, tries, cause, changes, creates, wait, following)
        self._states[job.id] = JobState.FAILED

    def _tries(self, job: Job) -> Tries:
        """Return how many attempts of a job count."""
        guard, tries = self._world.federation.guard, self._tasks[job.task].tries(job)
        return tries_of(self._speaking, job.id, guard, tries)

    def _following(self, job: Job, report: Report) -> NextAttempt:
        task, federation = self._tasks[job.task], self._world.federation
        return next_attempt(task, job, report.kind, federation, self._tries(job), report.wall_seconds)

    def _note(self, failed: Failure) -> None:
        """Count a new failure with those so far."""
        self._speaking = (*self._speaking, failed)
        self._by_queue = {}

    def _outweighed(self, task: Task, queue: str) -> tuple[Failure, ...]:
        """Return earlier failures that count less now, because a job of the task succeeded at a queue."""
        if not self._speaking:
            return ()
        changed = tuple(outweighed(self._of_queue(queue), task.id, queue, self._pilot.place))
        if not changed:
            return ()
        news = {(failure.job, failure.attempt): failure for failure in changed}
        self._speaking = tuple(
            news.get((failure.job, failure.attempt), failure) for failure in self._speaking
        )
        self._by_queue = {}
        return changed

    def _of_queue(self, queue: str) -> Sequence[Failure]:
        """Return the failures that count against a queue, cached because each success there needs them."""
        if queue not in self._by_queue:
            self._by_queue[queue] = [failure for failure in self._speaking if failure.queue == queue]
        return self._by_queue[queue]


def _file(instance: str, task: Task, job: Job, output: Output) -> File:
    name = output_name(instance, job.task, job.id, output.name)
    return File(
        name=identifier(personal_scope(task.owner), name),
        size=output.size,
        checksum=output.checksum,
        task=job.task,
        job=job.id,
    )


def _metrics(report: Report, pilot: Pilot) -> dict[str, Value]:
    """Return an attempt's usage from its report. Limit it to its pilot's walltime: one false report would
    distort means."""
    return {
        "exit_code": report.exit_code,
        "cpu_seconds": min(report.cpu_seconds, pilot.walltime * max(1, pilot.cores)),
        "wall_seconds": min(report.wall_seconds, pilot.walltime),
        "max_rss": report.max_rss,
        "max_workdir": report.max_workdir,
        "disk_io": report.disk_io,
    }


def note_lacking(pilot: Pilot, gpus: int, containers: bool, time: float, seed: int) -> Decision | None:
    """Record that a pilot's node lacks GPUs or containers for its own task queue, by its report (P12); None
    if nothing changes."""
    if not pilot.requirements:
        return None
    requirements = Requirements.from_text(pilot.requirements)
    equipment = {GPUS: gpus >= requirements.gpus, CONTAINERS: containers or not requirements.container}
    lacks = " and ".join(need for need, has in equipment.items() if not has)
    if lacks == pilot.lacks:
        return None
    change = Touch(kind="pilot", ids=(pilot.id,), changes={"lacks": lacks})
    return Decision(step=MATCH, time=time, seed=seed, changes=(change,))
