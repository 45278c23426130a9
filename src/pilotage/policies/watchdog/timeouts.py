"""Time-outs (rules T): end or rebroker records that waited too long, or jobs with a silent pilot."""

from collections import defaultdict

from pilotage.model.circuit_breakers.breaker import CircuitBreaker, open_at
from pilotage.model.circuit_breakers.empty_pilots import is_missed
from pilotage.model.circuit_breakers.jobs import open_queues
from pilotage.model.documents.decision import Decision, Move, Value
from pilotage.model.documents.moves import FRESH, JobMoves, Wait
from pilotage.model.documents.world import World
from pilotage.model.records.failures import Failure, Tries, tries_of
from pilotage.model.records.states import AT_A_PILOT, UNSTARTED_JOBS, JobState, PilotState
from pilotage.model.records.work import Job, Pilot, Requirements
from pilotage.model.rules.failed_attempts import FailedAttempts
from pilotage.model.rules.job_order import HIGH_PRIORITY
from pilotage.model.rules.rebrokerage import MOVED_FAST, excess, is_pinned, with_departure
from pilotage.model.rules.retry_causes import exceeded_by, next_attempt
from pilotage.model.rules.timeouts import (
    RULES,
    Outcome,
    Rule,
    absent,
    draining_queues,
    heartbeat_of,
    resting_queues,
)

WATCH = "watch"
"""The step that decides by this policy."""

_RULES = {(rule.kind, rule.state, rule.clock): rule for rule in RULES}


def watch(world: World) -> Decision:
    """End records past their time or return them to the brokerage. Take excess jobs from a queue (fast
    rebrokerage).

    The world must contain every pilot that holds one of its jobs, and every job of a silent pilot.
    """
    watchdog = _Watchdog(world)
    pilots = watchdog.pilots()
    return Decision(step=WATCH, time=world.time, seed=world.seed, changes=(*pilots, *watchdog.jobs()))


class _Watchdog:
    """One check of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        # Leave out pilots that reported their end, or ended with their batch job: they run no payload.
        self._pilots = {pilot.id: pilot for pilot in world.pilots if not _runs_nothing(pilot)}
        self._holders = {pilot.id: pilot for pilot in world.pilots}
        self._tasks = {task.id: task for task in world.tasks}
        self._failed_attempts = FailedAttempts(world)
        self._last_start = {report.queue: report.last_start for report in world.queue_reports}
        self._waiting = {
            (result.job, result.attempt, result.pilot)
            for result in world.waiting_results
            if world.time < result.until
        }
        self._queues = {queue.name for queue in world.federation.queues}
        self._draining = draining_queues(world.federation)
        self._federation = world.federation
        self._constants = world.federation.timeouts
        self._resting = resting_queues(world.federation)
        self._breakers: dict[str, list[CircuitBreaker]] = defaultdict(list)
        for breaker in open_queues(world.failures, world.federation, world.time):
            self._breakers[breaker.place[0]].append(breaker)
        self._lacks: dict[str, list[CircuitBreaker]] = defaultdict(list)
        for breaker in open_at(world.lacking_nodes, world.time):
            self._lacks[breaker.place[0]].append(breaker)

        self._silences: dict[int, float] = {}
        for job in world.jobs:
            if job.pilot is not None and job.state in AT_A_PILOT:
                longest = self._silences.get(job.pilot, 0.0)
                self._silences[job.pilot] = max(longest, self._silence(job))

    def pilots(self) -> tuple[Move, ...]:
        """Return the moves of pilots that were never submitted, waited too long, or are lost."""
        moves = []
        for rule in RULES:
            ids = tuple(sorted(pilot.id for pilot in self._pilots.values() if self._given_up(pilot, rule)))
            if ids:
                moves.append(self._ended(ids, rule))
        return tuple(moves)

    def jobs(self) -> tuple[Move, ...]:
        """Return the moves of jobs that end, or return to the brokerage, some as their next attempt."""
        moves = JobMoves()
        stay: list[Job] = []
        for job in self._world.jobs:
            if (job.id, job.attempt, job.pilot) in self._waiting:
                # Its payload has succeeded, and a server will take its results from the site's spool.
                continue
            outcome, cause = self._over(job)
            error = self._excess(job) or cause
            changes: dict[str, Value] = {"error": error, "ended": self._world.time}
            if outcome == "retry":
                kind = exceeded_by(self._excess(job))
                task, tries = self._tasks[job.task], self._tries(job)
                lasted = self._world.time - job.since
                following = next_attempt(task, job, kind, self._federation, tries, lasted)
                failed = self._lost(job, error, grows=bool(following.columns))
                tries, wait = self._tries(job, failed), self._wait(job)
                moves.fail(job, job.state, tries, cause, changes, failed, wait, following)
            elif outcome == "fail":
                moves.add(job, job.state, JobState.FAILED, cause=cause, changes=changes)
            elif outcome == "retake":
                moves.retake(job, job.state, self._tries(job), cause)
            elif outcome == "rebroker":
                moves.add(job, job.state, JobState.DEFINED, cause=cause, changes=FRESH)
            else:
                stay.append(job)
        for job in self._too_many(stay):
            cause = "more wait here than its queue works off: fast rebrokerage"
            # A pilot already has a starting job. The next attempt is for another pilot.
            is_held = job.state is JobState.STARTING
            changes = {**FRESH, "departures": with_departure(job, self._world.time)}
            moves.add(job, job.state, JobState.DEFINED, cause=cause, changes=changes, next_attempt=is_held)
        return moves.gathered()

    def _excess(self, job: Job) -> str:
        """Return why the batch system stopped a running job's pilot: for memory or walltime; else empty."""
        pilot = self._holders.get(job.pilot) if job.pilot is not None else None
        stopped = pilot is not None and pilot.state == PilotState.FAILED and job.state is JobState.RUNNING
        return pilot.error if pilot and stopped and exceeded_by(pilot.error) else ""

    def _wait(self, job: Job) -> Wait | None:
        """Return the wait until a disconnected pilot has stopped the old attempt; None if there is no such
        pilot.

        A connected pilot learns at its next report that it must stop. A disconnected one stops at the end of
        its lease.
        """
        pilot = self._pilots.get(job.pilot) if job.pilot is not None and job.state in AT_A_PILOT else None
        if pilot is None or self._world.time - pilot.last_heard <= 2 * self._federation.loops.heartbeat:
            return None
        until = pilot.last_heard + self._silence(job) + self._absent(pilot.queue, pilot.last_heard)
        return Wait(until, "its pilot may still run the old one") if until > self._world.time else None

    def _elapsed(self, queue: str, since: float) -> float:
        """Return the seconds since ``since``, without the time when a queue's pilots could not call any
        server."""
        return self._world.time - since - self._absent(queue, since)

    def _absent(self, queue: str, since: float) -> float:
        return absent(self._world.absences, queue, self._constants, since, self._world.time)

    def _silence(self, job: Job) -> float:
        """Return how many seconds of silence make a pilot lose a job, by the job's workflow."""
        return heartbeat_of(self._constants, self._tasks[job.task].spec.workflow)

    def _lost(self, job: Job, error: str, *, grows: bool) -> tuple[Failure, ...]:
        """Return the failure of an attempt if its pilot is lost, or was stopped for its memory or
        walltime."""
        pilot = self._holders.get(job.pilot) if job.pilot is not None and job.state in AT_A_PILOT else None
        if pilot is None:
            return ()
        silence = self._elapsed(pilot.queue, pilot.last_heard)
        is_lost = pilot.id not in self._pilots or silence >= self._silence(job)
        if not (is_lost or self._excess(job)):
            return ()
        return (self._failed_attempts.lost(job, pilot, error, grows),)

    def _tries(self, job: Job, failed: tuple[Failure, ...] = ()) -> Tries:
        """Return how many attempts of a job count, including the ones that ``failed`` now."""
        guard, tries = self._federation.guard, self._tasks[job.task].tries(job)
        return tries_of((*self._world.failures, *failed), job.id, guard, tries)

    def _too_many(self, jobs: list[Job]) -> list[Job]:
        """Return the jobs to move by fast rebrokerage: at each queue the excess number of jobs, oldest first.

        A starting job moves as its next attempt. It stays if it has no attempt left.
        """
        before = self._world.time - self._constants.fast_rebro_wait
        waiting: dict[tuple[str, str], list[Job]] = defaultdict(list)
        for job in sorted(jobs, key=lambda job: (job.since, job.id)):
            if job.since <= before and self._may_move_fast(job):
                waiting[job.queue, job.share].append(job)
        return [
            job
            for place, number in excess(self._federation, self._world.job_counts).items()
            for job in waiting[place][:number]
        ]

    def _may_move_fast(self, job: Job) -> bool:
        """Return whether a job may move. Jobs stay if they start in their last attempt, if a disconnected
        pilot may begin them, or if their task names only this queue."""
        if job.state not in MOVED_FAST:
            return False
        is_starting = job.state is JobState.STARTING
        stays = is_starting and (not self._tries(job).remain(job.attempt) or self._wait(job) is not None)
        spec = self._tasks[job.task].changed(job.changes, job.kind).spec
        return not stays and not is_pinned(spec, job.queue, self._federation)

    def _over(self, job: Job) -> tuple[Outcome, str]:
        """Return the outcome for a job, and why; "none" if it may stay."""
        if job.state == JobState.PENDING and job.wake_at is not None:
            cause = "its time to wait is over"
            return ("rebroker", cause) if self._world.time >= job.wake_at else ("none", "")
        if job.state in UNSTARTED_JOBS and (closed := self._closed(job)):
            return "rebroker", closed
        silence_rule = _RULES.get(("job", job.state, "silence"))
        pilot = self._pilots.get(job.pilot) if job.pilot is not None else None
        if silence_rule and pilot is None:
            return silence_rule.outcome, "its pilot has ended"
        if job.queue not in self._resting:
            silence = self._silence(job)
            if silence_rule and pilot and self._elapsed(pilot.queue, pilot.last_heard) >= silence:
                return silence_rule.outcome, f"{silence_rule.text} for longer than {silence:g} s"
            rule = _RULES.get(("job", job.state, "state"))
            if rule and self._elapsed(job.queue, job.since) >= self._limit(job, rule):
                return rule.outcome, f"{rule.text}: {job.state} for {self._limit(job, rule):g} s"
        return "none", ""

    def _closed(self, job: Job) -> str:
        """Return why a job's queue does not start it; empty if it does."""
        if job.queue not in self._queues:
            return "its queue is not in the federation any more"
        if job.queue in self._draining:
            return "its queue is draining"
        owner = self._tasks[job.task].owner
        breakers = self._breakers.get(job.queue, ())
        if any(breaker.holds_for(owner.vo, owner.name, job.task) for breaker in breakers):
            return "its queue takes no job of this task now: several failed fast there"
        lacks = self._lacks.get(job.queue, ())
        missed = (
            breaker.error
            for breaker in lacks
            if is_missed(breaker.place[1], Requirements.from_text(job.requirements))
        )
        return next((f"its queue has {error}" for error in missed), "")

    def _limit(self, job: Job, rule: Rule) -> float:
        """Return a job's limit in s; at high priority the rule's shorter limit, if it has one that
        applies."""
        limit = rule.seconds(self._federation)
        if not rule.high or job.priority < HIGH_PRIORITY:
            return limit
        started = self._last_start.get(job.queue)
        idle = started is None or self._world.time - started > self._constants.last_start
        return min(limit, rule.seconds_high(self._federation)) if idle or not rule.idle_only else limit

    def _given_up(self, pilot: Pilot, rule: Rule) -> bool:
        if rule.kind != "pilot" or rule.state != pilot.state:
            return False
        if rule.clock == "silence":
            silence = self._silences.get(pilot.id, self._constants.heartbeat)
            return (
                self._elapsed(pilot.queue, pilot.last_heard) >= silence and pilot.queue not in self._resting
            )
        # A pilot with a reference was submitted, although the commit of its state was lost. It may still
        # call.
        if rule.outcome == "fail" and pilot.reference:
            return False
        return self._world.time - pilot.since >= rule.seconds(self._federation)

    def _ended(self, ids: tuple[int, ...], rule: Rule) -> Move:
        return Move(
            kind="pilot",
            ids=ids,
            source=rule.state,
            target=PilotState.CANCELLED if rule.outcome == "cancel" else PilotState.FAILED,
            cause=rule.text,
            changes={"error": rule.text, "ended": self._world.time},
        )


def _runs_nothing(pilot: Pilot) -> bool:
    """Return whether a pilot has certainly ended, and its payloads too."""
    has_failed = pilot.state is PilotState.FAILED and pilot.ended_there_since is not None
    return has_failed or pilot.state is PilotState.FINISHED
