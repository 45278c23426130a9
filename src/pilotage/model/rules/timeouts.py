"""The table of time-outs (rules T). The watchdog, its snapshot and the documentation are made from it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

from pilotage.model.records.constants import TimeoutConstants
from pilotage.model.records.federation import Federation
from pilotage.model.records.servers import Absence
from pilotage.model.records.states import JobState, Kind, PilotState

Clock = Literal["state", "silence"]
Outcome = Literal["none", "rebroker", "retake", "retry", "fail", "cancel"]

OUTCOMES: Mapping[Outcome, str] = {
    "none": "nothing: every pass looks at it anyway",
    "rebroker": "brokered again, as the same attempt, for no pilot has it",
    "retake": (
        "brokered again, as the next attempt, while attempts remain: its pilot may still have it, though it "
        "has not started"
    ),
    "retry": (
        "this attempt fails; while attempts remain the job is brokered again, as the next one; where its "
        "pilot was cut off and may still run the old one, once the heartbeat time-out has passed"
    ),
    "fail": "given up; its jobs or slots are taken from it",
    "cancel": "cancelled at its site; it stops counting as waiting",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A limit on the time in a state, or on silence, and the outcome beyond it.

    ``limit`` names a constant of ``TimeoutConstants`` in s, or ``max_pilot_waiting_hours``. ``high`` names
    the constant for jobs of high priority, if that is shorter. ``clock`` is the measured time: in the state,
    or of the pilot's silence. With ``idle_only``, ``high`` applies only at queues without a start for
    ``last_start``.
    """

    kind: Kind
    state: JobState | PilotState
    clock: Clock = "state"
    limit: str
    outcome: Outcome
    text: str
    high: str = ""
    idle_only: bool = False

    def seconds(self, federation: Federation) -> float:
        """Return the limit in s."""
        if self.limit == "max_pilot_waiting_hours":
            return federation.director.max_pilot_waiting_hours * 3600
        return float(getattr(federation.timeouts, self.limit))

    def seconds_high(self, federation: Federation) -> float:
        """Return the limit of jobs of high priority in s, if there is one."""
        return float(getattr(federation.timeouts, self.high))


J, P = JobState, PilotState


def _job(state: JobState, outcome: Outcome, text: str, high: str = "", idle_only: bool = False) -> Rule:
    """Return the rule for the time in a state. Its limit has the state's name."""
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
    _job(J.THROTTLED, "fail", "its quotas of live jobs had no room"),
    _job(J.PENDING, "rebroker", "no queue took it"),
    _job(J.DEFINED, "none", "waits for the brokerage"),
    _job(J.HELD, "fail", "nobody released it"),
    _job(J.ASSIGNED, "rebroker", "its inputs did not arrive"),
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
    Rule(
        kind="pilot",
        state=P.SUBMITTED,
        limit="max_pilot_waiting_hours",
        outcome="cancel",
        text="waited too long at its site",
    ),
)
"""Every time-out. Those of jobs and silent pilots do not apply while the queue is paused or has
``disable_reassign``. A pilot's goodbye is no time-out: its jobs go back immediately. A pilot that only failed
or was cancelled may still have payloads, so its jobs wait for its silence. Jobs that have not started at a
queue that left the federation, or is draining, return to the brokerage immediately, too. If the brokerage set
a pending job's ``wake_at``, that replaces ``pending``. Times without a server count for no job and for no
silence."""

JOB_RULES = tuple(rule for rule in RULES if rule.kind == "job" and rule.clock == "state")
"""Time-outs of jobs by the time in their state."""


def resting_queues(federation: Federation) -> set[str]:
    """Return the queues without time-outs: paused ones, and those with ``disable_reassign``."""
    return {queue.name for queue in federation.queues if queue.status == "paused" or queue.disable_reassign}


def keeping_queues(federation: Federation) -> set[str]:
    """Return the queues that keep their waiting jobs: queues without time-outs, or with ``num_slots``."""
    declared = {queue.name for queue in federation.queues if queue.num_slots is not None}
    return resting_queues(federation) | declared


def draining_queues(federation: Federation) -> set[str]:
    """Return the queues that send their waiting jobs elsewhere."""
    return {queue.name for queue in federation.queues if queue.status == "draining"}


def heartbeat_of(constants: TimeoutConstants, workflow: str) -> float:
    """Return how many s a pilot may be silent before it loses a workflow's job."""
    return constants.heartbeat_by_workflow.get(workflow, constants.heartbeat)


LEASED = 0.6
"""Part of a time-out that is leased. The rest is for killing payloads and for clocks that differ (decision
3)."""


def lease_of(constants: TimeoutConstants, workflow: str) -> float:
    """Return the s that a workflow's job runs without an answered report, well below its heartbeat
    time-out."""
    return heartbeat_of(constants, workflow) * LEASED


def first_lease_of(constants: TimeoutConstants, workflow: str) -> float:
    """Return the same for a job without any answered report: other pilots get jobs that were in ``sent``
    for too long."""
    return min(lease_of(constants, workflow), constants.sent * LEASED)


CALL_TIMEOUT = 20.0
"""Seconds that a pilot's call may hang: so much later the pilot may notice that a server is back."""


def absent(
    absences: Iterable[Absence], queue: str, constants: TimeoutConstants, since: float, until: float
) -> float:
    """Return for how many s between two times no pilot of a queue could call.

    They count for no time-out: a laptop that sleeps for a night costs no job its attempt.
    """
    total, at = 0.0, since
    for absence in sorted(absences, key=lambda absence: absence.began):
        if absence.queue not in ("", queue):
            continue
        longest = constants.closed_tunnel if absence.queue else inf
        ended = min(absence.ended, absence.began + longest) + CALL_TIMEOUT
        gone = min(ended, until) - max(absence.began, at)
        if gone > 0:
            total, at = total + gone, ended
    return total


def shortest_heartbeat(constants: TimeoutConstants) -> float:
    """Return the shortest heartbeat time-out, in s: no pilot loses a job sooner.

    Agents without leases per job use it.
    """
    return min((constants.heartbeat, *constants.heartbeat_by_workflow.values()))


def longest_heartbeat(constants: TimeoutConstants) -> float:
    """Return the longest heartbeat time-out, in s: after that much silence, no job belongs to a pilot."""
    return max((constants.heartbeat, *constants.heartbeat_by_workflow.values()))
