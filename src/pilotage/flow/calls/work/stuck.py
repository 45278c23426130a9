"""What makes no progress for longer than usual, with the reason and the command that mends it."""

from dataclasses import dataclass

from pilotage.explain import circuit_breakers as breaker_words
from pilotage.explain import queues
from pilotage.explain import stuck as words
from pilotage.flow.calls.places import circuit_breakers, conditions
from pilotage.flow.calls.work import task_wait
from pilotage.flow.runtime import Runtime
from pilotage.model.records.states import AT_A_PILOT, JOBS_NOT_STARTED, JobState
from pilotage.model.rules.stuck import StuckGroup, stuck, usual_times
from pilotage.model.values.phrases import duration
from pilotage.store import JobDetails

MOST_TOLD = 100
"""Most groups that are told, those that exceed their limits most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldGroup:
    """A stuck group with its reason, and the command for it. ``task`` is that of its oldest job, else 0."""

    group: StuckGroup
    task: int
    reason: str
    usual: str
    command: str


def everything(runtime: Runtime) -> list[ToldGroup]:
    """Return what is stuck now, the worst first. Raises ``NoFederation``."""
    runtime.store.federation()
    now = runtime.clock()
    reads = runtime.store.stuck_queries
    found = stuck(reads.staying(now), usual_times(reads.past()), now)[:MOST_TOLD]
    # Read all queues at once: 100 reads took half a second.
    seen = conditions.of_queues(runtime, {group.place for group in found})
    troubles = {one.queue.name: queues.trouble(one) for one in seen}
    return [_told(runtime, group, troubles.get(group.place, "")) for group in found]


def _told(runtime: Runtime, group: StuckGroup, trouble: str) -> ToldGroup:
    job = runtime.store.queries.job(group.oldest) if group.kind == "job" else None
    task = group.oldest if group.kind == "task" else job.task if job else 0
    return ToldGroup(
        group=group,
        task=task,
        reason=words.reason_of(group, _found(runtime, group, job, trouble)),
        usual=words.usual_of(group),
        command=words.verb_of(group, task),
    )


def _found(runtime: Runtime, group: StuckGroup, job: JobDetails | None, trouble: str) -> str:
    """Return what is known about the obstacle of a group; empty if nothing is.

    ``trouble`` is why nothing can start at its queue.
    """
    if job is not None:
        return trouble if job.state is JobState.ACTIVATED else _of_job(runtime, job)
    if group.kind == "transfer":
        return _of_transfer(runtime, group)
    if group.kind == "pilot":
        pilot = runtime.store.queries.pilot(group.oldest)
        return (pilot.reason if pilot else "") or trouble
    return ""


def _of_job(runtime: Runtime, job: JobDetails) -> str:
    if job.state in AT_A_PILOT:
        return _of_pilot(runtime, job)
    if job.state not in JOBS_NOT_STARTED or (task := runtime.store.queries.task(job.task)) is None:
        return ""
    told = conditions.waits_for_brokerage(runtime, task) + conditions.waits_for_others(runtime, task)
    return told[0] if told else task_wait.of_task(runtime, task).why


def _of_pilot(runtime: Runtime, job: JobDetails) -> str:
    """Return when the pilot of a job called last; empty if it never did."""
    pilot = None if job.pilot is None else runtime.store.queries.pilot(job.pilot)
    if pilot is None or pilot.heartbeat is None:
        return ""
    silent = duration(runtime.clock() - pilot.heartbeat)
    return f"pilot {pilot.id} of {job.queue}, which has it, called {silent} ago"


def _of_transfer(runtime: Runtime, group: StuckGroup) -> str:
    transfer = runtime.store.transfer_queries.transfer(group.oldest)
    if transfer is None:
        return ""
    if why := conditions.unable_to_move(runtime, transfer.source, transfer.destination):
        return f"it waits for a server that can move it; this one cannot: {why}"
    ends, now = {transfer.source, transfer.destination}, runtime.clock()
    held = (one for one in circuit_breakers.of_storages(runtime) if ends & {*one.names})
    return next((breaker_words.line(one, now) for one in held), "")
