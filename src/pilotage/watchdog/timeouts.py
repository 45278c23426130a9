"""Time-outs (rules T): what has waited too long, or whose pilot has gone silent, moves on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pilotage.model.decision import Decision, Move, Value
from pilotage.model.moves import FRESH, JobMoves
from pilotage.model.states import UNSTARTED_JOBS, JobState, Kind, PilotState
from pilotage.model.work import Job, Pilot
from pilotage.model.world import World

Clock = Literal["state", "silence"]
Outcome = Literal["none", "rebroker", "retake", "retry", "fail"]

OUTCOMES: Mapping[Outcome, str] = {
    "none": "nothing: every pass looks at it anyway",
    "rebroker": "brokered again, as the same attempt, for no pilot has it",
    "retake": "brokered again, as the next attempt: it has not started, but its pilot may still have it",
    "retry": "this attempt fails; while attempts remain the job is brokered again, as the next one",
    "fail": "given up, and whatever it held is taken from it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How long something may stay as it is, and what becomes of it then.

    ``limit`` and ``high`` name constants of ``TimeoutConstants``, in s; ``high`` is the limit of jobs of high
    priority, where it is shorter. ``clock`` tells what is measured: the time in the state, or the silence
    of the pilot. ``idle_only`` holds ``high`` to queues that have not started anything for ``last_start``.
    """

    kind: Kind
    state: JobState | PilotState
    clock: Clock = "state"
    limit: str
    outcome: Outcome
    text: str
    high: str = ""
    idle_only: bool = False


J, P = JobState, PilotState

HIGH_PRIORITY = 800
"""From here on jobs are held to the ``high`` limits."""


def _job(state: JobState, outcome: Outcome, text: str, high: str = "", idle_only: bool = False) -> Rule:
    """The time in a state, whose limit bears the state's name."""
    return Rule(
        kind="job",
        state=state,
        limit=state.value,
        outcome=outcome,
        text=text,
        high=high,
        idle_only=idle_only,
    )


def _silence(kind: Kind, state: JobState | PilotState, outcome: Outcome, text: str) -> Rule:
    return Rule(kind=kind, state=state, clock="silence", limit="heartbeat", outcome=outcome, text=text)


RULES: tuple[Rule, ...] = (
    _job(J.PENDING, "rebroker", "no queue fitted (B37)"),
    _job(J.DEFINED, "none", "waits for the brokerage"),
    _job(J.ASSIGNED, "rebroker", "its inputs did not arrive"),
    _job(J.THROTTLED, "rebroker", "its site took no more"),
    _job(J.ACTIVATED, "rebroker", "no pilot took it", "activated_high", idle_only=True),
    _job(J.SENT, "retake", "its pilot never said that it has it"),
    _job(J.STARTING, "retry", "its payload did not begin", "starting_high", idle_only=True),
    _job(J.RUNNING, "retry", "its payload did not end"),
    _job(J.HOLDING, "retry", "its outputs were not sent on", "holding_high"),
    _job(J.TRANSFERRING, "retry", "its outputs did not arrive", "transferring_high"),
    _silence("job", J.SENT, "retake", "its pilot is silent"),
    _silence("job", J.STARTING, "retry", "its pilot is silent"),
    _silence("job", J.RUNNING, "retry", "its pilot is silent"),
    _silence("pilot", P.RUNNING, "fail", "lost"),
    Rule(kind="pilot", state=P.CREATED, limit="pilot_created", outcome="fail", text="never submitted"),
)
"""Every time-out. Those of jobs, and of silent pilots, rest while the queue is paused or has
``disable_reassign``. That a pilot took its leave is no time-out: what it held is taken from it at once. One
that is only known to have failed, or was cancelled, may have payloads left: its jobs wait for its silence.
What has not started at a queue that left the federation is brokered again at once, too. Where the
brokerage set a pending job's ``wake_at``, that holds instead of ``pending``."""

_RULES = {(rule.kind, rule.state, rule.clock): rule for rule in RULES}


def watch(world: World) -> Decision:
    """Everything whose time is over. The world has every pilot that lives or holds a job of it."""
    watchdog = _Watchdog(world)
    pilots = watchdog.pilots()
    return Decision(step="watch", time=world.time, seed=world.seed, changes=(*pilots, *watchdog.jobs()))


class _Watchdog:
    """One look at one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pilots = {pilot.id: pilot for pilot in world.pilots if pilot.state != P.FINISHED}
        self._tasks = {task.id: task for task in world.tasks}
        self._last_start = {report.queue: report.last_start for report in world.queue_reports}
        self._queues = {queue.name for queue in world.federation.queues}
        self._resting = {
            queue.name
            for queue in world.federation.queues
            if queue.status == "paused" or queue.disable_reassign
        }

    def pilots(self) -> tuple[Move, ...]:
        """Pilots that were never submitted, or are lost."""
        moves = []
        for rule in RULES:
            ids = tuple(sorted(pilot.id for pilot in self._pilots.values() if self._given_up(pilot, rule)))
            if ids:
                moves.append(self._failed(ids, rule))
        return tuple(moves)

    def jobs(self) -> tuple[Move, ...]:
        """Jobs that go back to the brokerage, at once or as another attempt."""
        moves = JobMoves()
        for job in self._world.jobs:
            outcome, cause = self._over(job)
            if outcome == "retry":
                changes: dict[str, Value] = {"error": cause, "ended": self._world.time}
                moves.fail(job, job.state, self._tasks[job.task].spec.max_attempts, cause, changes)
            elif outcome in ("rebroker", "retake"):
                again = outcome == "retake"
                moves.add(job, job.state, JobState.DEFINED, cause=cause, changes=FRESH, next_attempt=again)
        return moves.gathered()

    def _over(self, job: Job) -> tuple[Outcome, str]:
        """What becomes of a job, and why; "none" while it may stay."""
        if job.state == JobState.PENDING and job.wake_at is not None:
            cause = "its time to wait is over (B37)"
            return ("rebroker", cause) if self._world.time >= job.wake_at else ("none", "")
        if job.state in UNSTARTED_JOBS and job.queue not in self._queues:
            return "rebroker", "its queue is not in the federation any more"
        held = _RULES.get(("job", job.state, "silence"))
        pilot = self._pilots.get(job.pilot) if job.pilot is not None else None
        if held and pilot is None:
            return held.outcome, "its pilot has ended"
        if job.queue not in self._resting:
            if held and pilot and self._is_silent(pilot, held):
                return held.outcome, f"{held.text} for longer than {self._constant(held.limit):g} s"
            rule = _RULES.get(("job", job.state, "state"))
            if rule and self._world.time - job.since >= self._limit(job, rule):
                return rule.outcome, f"{rule.text}: {job.state} for {self._limit(job, rule):g} s"
        return "none", ""

    def _limit(self, job: Job, rule: Rule) -> float:
        """The limit of a job in s: the shorter one at high priority, where the rule has one that holds."""
        limit = self._constant(rule.limit)
        if not rule.high or job.priority < HIGH_PRIORITY:
            return limit
        started = self._last_start.get(job.queue)
        idle = started is None or self._world.time - started > self._constant("last_start")
        return min(limit, self._constant(rule.high)) if idle or not rule.idle_only else limit

    def _given_up(self, pilot: Pilot, rule: Rule) -> bool:
        if rule.kind != "pilot" or rule.state != pilot.state:
            return False
        if rule.clock == "silence":
            return pilot.queue not in self._resting and self._is_silent(pilot, rule)
        return not pilot.reference and self._world.time - pilot.since >= self._constant(rule.limit)

    def _is_silent(self, pilot: Pilot, rule: Rule) -> bool:
        heard = pilot.since if pilot.heartbeat is None else pilot.heartbeat
        return self._world.time - heard >= self._constant(rule.limit)

    def _failed(self, ids: tuple[int, ...], rule: Rule) -> Move:
        return Move(
            kind="pilot",
            ids=ids,
            source=rule.state,
            target=PilotState.FAILED,
            cause=rule.text,
            changes={"error": rule.text, "ended": self._world.time},
        )

    def _constant(self, name: str) -> float:
        return float(getattr(self._world.federation.timeouts, name))
