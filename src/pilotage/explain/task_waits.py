"""Why a task or a job waits, its place in line, and its likely end."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pilotage.explain.analysis import Obstacle, first_obstacle
from pilotage.explain.words import amount, few, number
from pilotage.model.documents.decision import Choice
from pilotage.model.documents.remarks import Remark
from pilotage.model.records.states import AT_A_PILOT, JobState
from pilotage.model.rules.job_rooms import JobQuota
from pilotage.model.rules.likely_ends import LikelyEnd
from pilotage.model.values.phrases import duration, jobs_wait, moment, plural

CAUSES: Mapping[JobState, str] = {
    JobState.PENDING: "a queue that can take them",
    JobState.DEFINED: "the next pass of the brokerage",
    JobState.ACTIVATED: "a free pilot",
    JobState.ASSIGNED: "their input files",
    JobState.THROTTLED: "room in a quota of live jobs",
    JobState.HELD: "their release",
}
"""The next event for waiting jobs, by state."""


def cause(subject: str, state: JobState, last: Choice | None = None) -> Remark:
    """Return why jobs of a state wait; for pending jobs, by the ``last`` choice, which refused them."""
    remark = Remark(kind="wait", subject=subject, text=CAUSES[state], mend="wait")
    if state is not JobState.PENDING or last is None:
        return remark
    obstacle = first_obstacle(last)
    if obstacle is None:
        return replace(remark, text="room at the queues that can take them")
    return of_obstacle(subject, obstacle, f"{remark.text}: ")


def of_obstacle(subject: str, obstacle: Obstacle, before: str = "") -> Remark:
    """Return a remark on an obstacle: its name, the number of queues, the need, and who can act.

    It is a fault if waiting does not help. Space on a storage does not free itself (B18).
    """
    needed = ""
    if obstacle.best is not None:
        needed = f" ({amount(obstacle.need, obstacle.unit)} needed, {number(obstacle.best)} there at most)"
    return Remark(
        kind="wait" if obstacle.mend == "wait" and obstacle.rule != "B18" else "fault",
        subject=subject,
        text=f"{before}{obstacle.name} at {plural(obstacle.queues, 'queue')}{needed}",
        rule=obstacle.rule,
        mend=obstacle.mend,
        action=obstacle.action,
    )


def waiting_cause(
    subject: str, jobs: Mapping[JobState, int], last: Choice | None, queues: Sequence[str]
) -> Remark | None:
    """Return why jobs of a task wait; None if none waits, or if only quotas hold them.

    ``last`` is the newest choice for its jobs. At the ``queues`` its jobs wait for a pilot.
    """
    order = (JobState.PENDING, JobState.DEFINED, JobState.ACTIVATED, JobState.ASSIGNED)
    state = next((job_state for job_state in order if jobs.get(job_state)), None)
    if state is None:
        return None
    remark, more = cause(subject, state, last), ""
    if state is JobState.ACTIVATED:
        busy = sum(jobs.get(job_state, 0) for job_state in AT_A_PILOT)
        more = (f" at {few(queues)}" if queues else "") + (f" while {busy} run" if busy else "")
    return replace(remark, text=f"{jobs_wait(jobs[state])} for {remark.text}{more}")


def line(subject: str, tasks: int, jobs: int, share: str) -> Remark:
    """Return a task's place in line."""
    waiting = f"{jobs:,} job" if jobs == 1 else f"{jobs:,} jobs"
    text = f"{plural(tasks, 'task')} with {waiting} {'is' if tasks == 1 else 'are'} ahead in share {share}"
    return Remark(kind="line", subject=subject, text=text, mend="wait")


def likely(subject: str, end: LikelyEnd, now: float) -> Remark:
    """Return when a task is likely to end, and how often such predictions come true."""
    earliest, latest = duration(end.earliest), duration(end.latest)
    when = f"in about {latest}" if earliest == latest else f"in {earliest} to {latest}"
    text = f"it is likely to end {when} (true in 3 of 4 such predictions), by {end.jobs} finished jobs"
    return Remark(kind="end", subject=subject, text=text, until=now + end.latest)


def throttled(
    subject: str, jobs: int, full: Sequence[tuple[JobQuota, int]], fails_at: float | None = None
) -> Remark:
    """Return which quotas are full, and when throttled jobs are released; for one job, also when it fails."""
    quotas = " and ".join(
        f"{quota.holder} has {plural(have, 'live job')}, and may have {quota.limit} (quotas.{quota.constant})"
        for quota, have in full
    )
    after = f"{quotas}; each of these that ends releases one, its owner's first submitted first"
    room = "its quotas have room again: it is released at the next pass"
    fails = f"; it fails at {moment(fails_at)} if it is not released until then" if fails_at else ""
    return Remark(
        kind="wait",
        subject=subject,
        text=f"{plural(jobs, 'job')} throttled: {after if full else room}{fails}",
        mend="wait",
        until=fails_at,
    )
