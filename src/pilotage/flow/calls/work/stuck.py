"""Records without progress, for longer than usual or until a person acts, with the reason and the command."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, TypeVar

from pilotage.explain import queues
from pilotage.flow.calls.administration import servers
from pilotage.flow.calls.places import conditions
from pilotage.flow.calls.work import remarks, sure_waits
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.remarks import Remark
from pilotage.model.records.observations import WaitingResults
from pilotage.model.records.states import LIVE_TASKS, JobState, Kind
from pilotage.model.rules.stuck import EXPECTED, StuckGroup, stuck, usual_times
from pilotage.model.values.phrases import duration, moment, plural
from pilotage.model.values.types import DESCRIBED
from pilotage.store import EndedPilot, TaskDetails, TaskPage

MOST_GROUPS = 100
"""Most groups of one answer, the furthest over their limits first."""

MOST_LISTED = 100
"""Most live tasks of a state that are read, the newest first."""

MOST_TASKS = 50
"""Most of these that are examined, those with the most live jobs first."""

_UNPLACED = (JobState.THROTTLED, JobState.PENDING, JobState.DEFINED)
"""Jobs that are at no queue yet: they have a share alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckRecords:
    """Records of a kind that make no progress in one state at one place."""

    __pydantic_config__ = DESCRIBED

    what: str
    """What is stuck, in words."""
    kind: Kind | Literal["results", "loop", "queue", "record"]
    """The kind of the records; ``record``: of those that a step has set aside."""
    state: str
    """The state that they do not leave."""
    place: str
    """Queue, storage, share or catalogue; of a loop, its name."""
    count: int
    """How many; of a loop, the servers on which it fails."""
    usual: float | None = None
    """Within how many s most left the state; null: too few did."""
    limit: float | None = None
    """After how many s they count as stuck; null: immediately."""
    remark: Remark
    """Why they make no progress: about the record that is in the state for longest."""


def everything(runtime: Runtime) -> list[StuckRecords]:
    """Return the stuck records, the worst first. Raises ``NoFederation``."""
    runtime.store.federation()
    certain = [
        *map(_loop, servers.failing_loops(runtime)),
        *_results(runtime),
        *_ended_pilots(runtime),
        *_groups(runtime),
    ]
    causes = {_cause_of(stuck_records.remark) for stuck_records in certain}
    return [
        *certain,
        *(
            stuck_records
            for stuck_records in _faults(runtime)
            if _cause_of(stuck_records.remark) not in causes
        ),
    ]


def _cause_of(remark: Remark) -> tuple[str, str]:
    """Return a key that remarks of one cause share: its check's demand, but not its numbers of jobs."""
    return (remark.rule, remark.action) if remark.rule else ("", remark.text)


def _groups(runtime: Runtime) -> Iterator[StuckRecords]:
    """Yield records that are in their states for longer than usual."""
    now, reads = runtime.clock(), runtime.store.stuck_queries
    groups = stuck(reads.staying(now), usual_times(reads.past()), now)[:MOST_GROUPS]
    # Read all queues together: 100 reads took half a second.
    queue_conditions = conditions.of_queues(runtime, {group.place for group in groups})
    faults = {condition.queue.name: queues.fault(condition) for condition in queue_conditions}
    for group in groups:
        remark = _reason(runtime, group, faults.get(group.place))
        yield StuckRecords(
            what=f"{what_of(group.kind, group.state, group.place, group.count)}, {usual_of(group)}",
            kind=group.kind,
            state=group.state,
            place=group.place,
            count=group.count,
            usual=group.usual,
            limit=group.limit,
            remark=replace(remark, subject=f"{group.kind}:{group.oldest}", since=group.since),
        )


def what_of(kind: str, state: str, place: str, count: int) -> str:
    """Name stuck records in words: ``12 jobs activated at north-short``, ``2 jobs pending in share ops``."""
    preposition = "in share" if kind == "task" or state in _UNPLACED else "at"
    return f"{plural(count, kind)} {state}" + (f" {preposition} {place}" if place else "")


def usual_of(group: StuckGroup) -> str:
    """Return the usual time: ``usually within 4 min``, or the limit if too few records have left."""
    if group.usual is None:
        return f"expected within {duration(group.limit)}"
    return f"usually within {duration(group.usual)}"


def _reason(runtime: Runtime, group: StuckGroup, fault: Remark | None) -> Remark:
    """Return why a group is stuck: a known cause, else its last error, else the usual lack in its state.

    ``fault`` is why nothing can start at its queue.
    """
    store, expected = runtime.store, EXPECTED[group.kind, group.state]
    task, causes = 0, tuple[Remark, ...]()
    if group.kind == "job" and (job := store.queries.job(group.oldest)):
        task = job.task
        causes = (fault,) if fault and job.state is JobState.ACTIVATED else remarks.of_job(runtime, job)
    elif group.kind == "transfer" and (transfer := store.transfer_queries.transfer(group.oldest)):
        causes = remarks.of_transfer(runtime, transfer)
    elif group.kind == "pilot":
        pilot = store.queries.pilot(group.oldest)
        causes = (_plain(pilot.reason),) if pilot and pilot.reason else (fault,) if fault else ()
    reason = causes[0] if causes else _plain(group.error.partition("\n")[0] or expected.lack)
    return replace(reason, command=expected.command.format(id=group.oldest, task=task, place=group.place))


def _plain(text: str) -> Remark:
    return Remark(kind="fault", subject="", text=text)


def _faults(runtime: Runtime) -> Iterator[StuckRecords]:
    """Yield the causes that stop tasks until a person acts, as owners see them, and records set aside."""
    found_of = [(task, remarks.faults_of(runtime, task)) for task in _most_waiting(runtime)]
    per_task = [
        (*remarks.stops_of(runtime, task), *faults, *sure_waits.of_task(runtime, task, faults))
        for task, faults in found_of
    ]
    by_cause = defaultdict[tuple[str, ...], list[Remark]](list)
    for remark in chain(*per_task, remarks.everything_set_aside(runtime)):
        if remark.kind in ("blocked", "fault", "warning"):
            by_cause[remark.subject.partition(":")[0], *_cause_of(remark)].append(remark)
    for same_cause in by_cause.values():
        first = same_cause[0]
        kind, _, name = first.subject.partition(":")
        count = len({remark.subject for remark in same_cause})
        text = f"{plural(count, kind)} {'waits' if count == 1 else 'wait'} until somebody acts"
        yield StuckRecords(
            what=text,
            kind="task" if kind == "task" else "queue" if kind == "queue" else "record",
            state="waiting",
            place=name if kind == "queue" else "",
            count=count,
            remark=first,
        )


def _most_waiting(runtime: Runtime) -> list[TaskDetails]:
    """Return live tasks, with most jobs first."""
    pages = (runtime.store.task_lists.page(TaskPage(state=state, limit=MOST_LISTED)) for state in LIVE_TASKS)
    live = {task.id: sum(task.jobs.values()) for page in pages for task in page if not task.held}
    busiest = sorted(live, key=lambda number: (-live[number], number))[:MOST_TASKS]
    return [task for task in map(runtime.store.queries.task, busiest) if task]


def _loop(loop: servers.FailingLoop) -> StuckRecords:
    is_run = bool(loop.servers)
    place = f"{', '.join(loop.servers)}: " if is_run else ""
    remark = Remark(
        kind="fault",
        subject=f"loop:{loop.name}",
        text=f"{place}{loop.error}",
        mend="operator",
        command="pilotage servers" if is_run else f"pilotage up --no-api --only {loop.name}",
    )
    server_count = plural(len(loop.servers), "server")
    return StuckRecords(
        what=f"loop {loop.name} fails on {server_count}" if is_run else f"no server has loop {loop.name}",
        kind="loop",
        state="failing" if is_run else "missing",
        place=loop.name,
        count=len(loop.servers),
        remark=remark,
    )


def _results(runtime: Runtime) -> Iterator[StuckRecords]:
    """Yield results that could not be taken from a spool, by queue."""
    waiting = [results for results in runtime.store.results_in_spools.everything() if results.problem]
    for queue, results_there in _by_queue(waiting).items():
        yield StuckRecords(
            what=f"{plural(len(results_there), 'result')} waiting at {queue}",
            kind="results",
            state="waiting",
            place=queue,
            count=len(results_there),
            remark=Remark(
                kind="fault",
                subject=f"job:{results_there[0].job}",
                text=results_there[0].problem,
                mend="operator",
                command=f"pilotage explain job:{results_there[0].job}",
                since=results_there[0].since,
            ),
        )


def _ended_pilots(runtime: Runtime) -> Iterator[StuckRecords]:
    """Yield pilots that still have jobs after their batch job has ended, by queue."""
    for queue, pilots in _by_queue(runtime.store.queries.ended_pilots()).items():
        jobs, last = sum(pilot.jobs for pilot in pilots), max(pilot.sure_at for pilot in pilots)
        yield StuckRecords(
            what=f"{plural(len(pilots), 'pilot')} ended at {queue}",
            kind="pilot",
            state="ended",
            place=queue,
            count=len(pilots),
            remark=Remark(
                kind="fault",
                subject=f"pilot:{pilots[0].pilot}",
                text=f"their batch jobs ended: {pilots[0].reason}; {plural(jobs, 'job')} there go on "
                f"elsewhere by {moment(last)} unless these pilots call",
                mend="wait",
                command=f"pilotage explain pilot:{pilots[0].pilot}",
                since=pilots[0].ended,
                until=last,
            ),
        )


AtQueue = TypeVar("AtQueue", WaitingResults, EndedPilot)


def _by_queue(records: Iterable[AtQueue]) -> Mapping[str, list[AtQueue]]:
    by_queue = defaultdict[str, list[AtQueue]](list)
    for record in records:
        by_queue[record.queue].append(record)
    return by_queue
