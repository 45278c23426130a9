"""Why a task waits, in one sentence, its place in line, and why jobs are throttled."""

from collections.abc import Iterator, Mapping, Sequence

from pilotage.explain.analysis import first_obstacle
from pilotage.explain.sure_waits import told
from pilotage.explain.words import few
from pilotage.model.documents.decision import Choice
from pilotage.model.records.states import AT_A_PILOT, JobState, TaskState
from pilotage.model.rules.job_rooms import JobQuota
from pilotage.model.rules.likely_ends import LikelyEnd
from pilotage.model.values.phrases import duration, jobs_wait, moment, plural


def why(
    state: TaskState,
    jobs: Mapping[JobState, int],
    held: str,
    last: Choice | None,
    queues: Sequence[str],
    after: str = "",
    keyless: bool = False,
) -> str:
    """Return why a task waits; empty if it does not.

    ``after`` is what it waits for if it comes after other tasks. ``last`` is the newest choice for its jobs,
    ``queues`` are those where its jobs wait for a pilot. ``keyless`` says that this server cannot decrypt its
    secrets.
    """
    if held:
        return f"It waits because {held} holds it."
    if state is TaskState.WAITING:
        return f"It {after or 'goes on with the next pass'}."
    if state is TaskState.REGISTERED:
        return "It waits to be split into jobs."
    busy = sum(jobs.get(one, 0) for one in AT_A_PILOT)
    where = f" at {few(queues)}" if queues else ""
    pilot = "for a server that has the key of their secrets" if keyless else "for a free pilot"
    causes = {
        JobState.PENDING: f"because {_refusal(last)}",
        JobState.THROTTLED: "because a quota of jobs at work is reached",
        JobState.DEFINED: "for the next pass of the brokerage",
        JobState.ACTIVATED: f"{pilot}{where}{f' while {busy} run' if busy else ''}",
        JobState.ASSIGNED: "for their input files",
    }
    return next((f"{jobs_wait(jobs[one])} {cause}." for one, cause in causes.items() if jobs.get(one)), "")


def line(tasks: int, jobs: int, share: str) -> str:
    """Return a task's place in line; empty if nothing is ahead."""
    if not tasks:
        return ""
    waiting = f"{jobs:,} job" if jobs == 1 else f"{jobs:,} jobs"
    return f"{plural(tasks, 'task')} with {waiting} {'is' if tasks == 1 else 'are'} ahead in share {share}."


def likely(end: LikelyEnd) -> str:
    """Return when a task is likely to end, with how often such intervals were right."""
    earliest, latest = duration(end.earliest), duration(end.latest)
    when = f"in about {latest}" if earliest == latest else f"in {earliest} to {latest}"
    return f"It is likely to end {when} (true in 3 of 4 such predictions), by {end.jobs} finished jobs."


def _refusal(last: Choice | None) -> str:
    if last is None:
        return "no queue takes them now"
    obstacle = first_obstacle(last)
    return f"no queue takes them: {told(obstacle)}" if obstacle else "every queue that fits is full"


def of_quotas(full: Sequence[tuple[JobQuota, int]]) -> str:
    """Return which quotas are full, and what releases a throttled job."""
    if not full:
        return "its quotas have room again: it is released at the next pass"
    told = " and ".join(
        f"{quota.holder} has {plural(have, 'live job')}, and may have {quota.limit} (quotas.{quota.constant})"
        for quota, have in full
    )
    return f"{told}; each of these that ends releases one, its owner's first submitted first"


def of_throttled_job(full: Sequence[tuple[JobQuota, int]], fails_at: float) -> Iterator[str]:
    """Yield why a job is throttled, what releases it, and when it fails."""
    yield f"throttled: {of_quotas(full)}"
    yield f"  it fails at {moment(fails_at)} if it is not released until then; nothing else holds it back"
