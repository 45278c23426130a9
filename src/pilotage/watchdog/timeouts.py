"""Time-outs (rules T): what has waited too long, or whose pilot has gone silent, moves on."""

from pilotage.model.decision import Decision, Move, Value
from pilotage.model.moves import FRESH, JobMoves
from pilotage.model.priorities import HIGH_PRIORITY
from pilotage.model.states import UNSTARTED_JOBS, JobState, PilotState
from pilotage.model.timeouts import RULES, Outcome, Rule, resting_queues
from pilotage.model.work import Job, Pilot
from pilotage.model.world import World

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
        self._pilots = {pilot.id: pilot for pilot in world.pilots if pilot.state != PilotState.FINISHED}
        self._tasks = {task.id: task for task in world.tasks}
        self._last_start = {report.queue: report.last_start for report in world.queue_reports}
        self._queues = {queue.name for queue in world.federation.queues}
        self._constants = world.federation.timeouts
        self._resting = resting_queues(world.federation)

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
                return held.outcome, f"{held.text} for longer than {held.seconds(self._constants):g} s"
            rule = _RULES.get(("job", job.state, "state"))
            if rule and self._world.time - job.since >= self._limit(job, rule):
                return rule.outcome, f"{rule.text}: {job.state} for {self._limit(job, rule):g} s"
        return "none", ""

    def _limit(self, job: Job, rule: Rule) -> float:
        """The limit of a job in s: the shorter one at high priority, where the rule has one that holds."""
        limit = rule.seconds(self._constants)
        if not rule.high or job.priority < HIGH_PRIORITY:
            return limit
        started = self._last_start.get(job.queue)
        idle = started is None or self._world.time - started > self._constants.last_start
        return min(limit, rule.seconds_high(self._constants)) if idle or not rule.idle_only else limit

    def _given_up(self, pilot: Pilot, rule: Rule) -> bool:
        if rule.kind != "pilot" or rule.state != pilot.state:
            return False
        if rule.clock == "silence":
            return pilot.queue not in self._resting and self._is_silent(pilot, rule)
        return not pilot.reference and self._world.time - pilot.since >= rule.seconds(self._constants)

    def _is_silent(self, pilot: Pilot, rule: Rule) -> bool:
        return self._world.time - pilot.last_heard >= rule.seconds(self._constants)

    def _failed(self, ids: tuple[int, ...], rule: Rule) -> Move:
        return Move(
            kind="pilot",
            ids=ids,
            source=rule.state,
            target=PilotState.FAILED,
            cause=rule.text,
            changes={"error": rule.text, "ended": self._world.time},
        )
