"""Move waiting jobs to queues with idle pilots where their inputs already are."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pilotage.flow.brokerages import Brokerages, requested_binding
from pilotage.flow.held_places import held_places
from pilotage.flow.reads import startable
from pilotage.flow.step import Phase, Step
from pilotage.flow.steps.broker import chosen, plugins, restricted
from pilotage.model.documents.decision import Decision, Move
from pilotage.model.documents.merged_decisions import joined
from pilotage.model.documents.moves import FRESH
from pilotage.model.documents.subjects import QUEUE, TASK
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.work import Job
from pilotage.model.rules.rebrokerage import idle_slots
from pilotage.model.rules.site_limits import NOBODY, all_bounds, jobs_there
from pilotage.model.rules.timeouts import keeping_queues
from pilotage.model.rules.work_budget import PAIRS, WorkBudget
from pilotage.model.values.step_names import REBIND
from pilotage.policies.brokerage.engine.site_claims import with_site_claims
from pilotage.store.worlds.broker_facts import OF_JOBS, OF_PLACES, ahead, waiting_jobs
from pilotage.store.worlds.fields import only_where_idle_elsewhere

PATIENCE = 5.0
"""Seconds that a job waits for its own queue's pilots, which may be about to ask."""


def rebound(world: World, plugin: str, brokerages: Brokerages) -> Decision:
    """Take a plugin's waiting jobs from their queues, and choose again among queues with idle pilots.

    Offer each idle queue the longest waiting jobs that it accepts and that have their inputs at its storage,
    at most one per idle slot. The brokerage decides as if there were no other queue. Refused jobs stay, like
    jobs bound early (E1) or at a queue that keeps its jobs. The site's limits apply to others' jobs (M8).
    """
    world = restricted(world, plugin)
    idle = idle_slots(world.federation, world.queue_reports, world.job_counts)
    excluded = {*idle, *keeping_queues(world.federation)}
    bound = {
        task.id
        for task in world.tasks
        if idle and requested_binding(task.spec, task.owner, world.federation, brokerages) == "early"
    }
    waiting = [
        job
        for job in sorted(world.jobs, key=lambda job: (job.since, job.id))
        if job.state is JobState.ACTIVATED
        and job.queue not in excluded
        and job.task not in bound
        and world.time - job.since >= PATIENCE
    ]
    work = WorkBudget()
    for task, jobs in Counter(job.task for job in waiting).items():
        work.spend(task, PAIRS, jobs * len(idle))
    decisions: list[Decision] = []
    files_by_queue, sizes = _held_files(world), {file.name: file.size for file in world.files}
    rooms = _Rooms(world)
    for name, slots in idle.items():
        place = partial(_place, world, name, plugin, brokerages)
        # They could start there without moving a byte.
        near = rooms.fitting(name, [job for job in waiting if files_by_queue[name].issuperset(job.inputs)])
        offered = _fitting(near, sizes, place)[:slots] if len(near) > slots else near
        if offered and (placed := place(offered)).changes:
            moved = {id_ for move in placed.moves for id_ in move.ids}
            rooms.take(name, [job for job in waiting if job.id in moved])
            waiting = [job for job in waiting if job.id not in moved]
            decisions.append(placed)
    return with_site_claims(joined(REBIND, world, decisions), world)


class _Rooms:
    """How many jobs of other sites each site with limits accepts."""

    def __init__(self, world: World) -> None:
        self._sites = {queue.name: queue.site for queue in world.federation.queues}
        there = jobs_there(world.federation, world.job_counts)
        self._left = {
            site: bounds.room(there.get(site, NOBODY)) for site, bounds in all_bounds(world).items()
        }

    def fitting(self, queue: str, jobs: Sequence[Job]) -> Sequence[Job]:
        """Return the jobs that a queue's site accepts: its own, and others while it has room."""
        room = self._left.get(self._sites[queue])
        if room is None:
            return jobs
        free_places = iter(range(room))
        return [job for job in jobs if self._is_near(job, queue) or next(free_places, None) is not None]

    def take(self, queue: str, jobs: Sequence[Job]) -> None:
        """Count jobs that go to a queue."""
        site = self._sites[queue]
        if site in self._left:
            self._left[site] -= sum(not self._is_near(job, queue) for job in jobs)

    def _is_near(self, job: Job, queue: str) -> bool:
        return self._sites.get(job.queue) == self._sites[queue]


def _held_files(world: World) -> dict[str, set[str]]:
    """Return the files at the storage of each queue."""
    by_storage: defaultdict[str, set[str]] = defaultdict(set)
    for replica in world.replicas:
        by_storage[replica.storage].add(replica.file)
    return {queue.name: by_storage[queue.storage] for queue in world.federation.queues}


def _fitting(
    jobs: Sequence[Job], sizes: Mapping[str, float], place: Callable[[Sequence[Job]], Decision]
) -> Sequence[Job]:
    """Return the jobs similar to a placed one, so that a refused job does not block those behind it.

    Jobs of a task have different needs there: merge jobs differ from others, and each depends on its inputs
    (B17).
    """
    like = {
        job.id: (job.task, job.kind, job.changes, sum(sizes[name] for name in job.inputs)) for job in jobs
    }
    first = {like[job.id]: job for job in reversed(jobs)}
    if len(first) == 1:
        return jobs
    placed = {like[id_] for move in place(list(first.values())).moves for id_ in move.ids}
    return [job for job in jobs if like[job.id] in placed]


def _place(world: World, name: str, plugin: str, brokerages: Brokerages, offered: Sequence[Job]) -> Decision:
    """Let the brokerage decide about these jobs for one queue."""
    alone = replace(
        world,
        federation=_with_one_queue(world.federation, name),
        jobs=tuple(replace(job, state=JobState.DEFINED, queue="") for job in offered),
    )
    return _take_jobs_first(chosen(alone, plugin, brokerages), {job.id: job for job in offered})


def _with_one_queue(federation: Federation, name: str) -> Federation:
    """Return the federation with one queue and its site's links: others have no influence."""
    (queue,) = (declared for declared in federation.queues if declared.name == name)
    links = (link for link in federation.links if queue.site in (link.source, link.destination))
    return replace(federation, queues=(queue,), links=tuple(links))


def _take_jobs_first(decision: Decision, jobs: dict[int, Job]) -> Decision:
    """Return the placements of a decision, each job taken from its queue first. Drop refusals."""
    placements = [move for move in decision.moves if move.target is JobState.ACTIVATED]
    used_choices = sorted({move.choice for move in placements if move.choice is not None})
    numbers = {choice: number for number, choice in enumerate(used_choices)}
    by_queue: dict[str, list[int]] = defaultdict(list)
    for move in placements:
        for id_ in move.ids:
            by_queue[jobs[id_].queue].append(id_)
    leaving = tuple(
        Move(
            kind="job",
            ids=tuple(sorted(ids)),
            attempts=tuple(jobs[id_].attempt for id_ in sorted(ids)),
            source=JobState.ACTIVATED,
            target=JobState.DEFINED,
            cause=f"waits at {queue} while pilots are idle elsewhere",
            changes=FRESH,
        )
        for queue, ids in sorted(by_queue.items())
    )
    placing = tuple(
        replace(move, choice=None if move.choice is None else numbers[move.choice]) for move in placements
    )
    choices = tuple(decision.choices[choice] for choice in used_choices)
    return replace(decision, changes=(*leaving, *placing), choices=choices)


def _phases(world: World, brokerages: Brokerages) -> Sequence[Phase]:
    return [
        Phase(actor=REBIND, decide=partial(rebound, plugin=plugin, brokerages=brokerages), plugin=plugin)
        for plugin in plugins(world)
    ]


def _idle(world: World) -> Iterator[str]:
    idle = idle_slots(world.federation, world.queue_reports, world.job_counts)
    if not idle:
        yield "no running pilot has a free slot that nothing waits for"
    elif not any(job.state is JobState.ACTIVATED and job.queue not in idle for job in world.jobs):
        yield f"no job waits elsewhere; idle slots: {', '.join(f'{q} {n}' for q, n in idle.items())}"
    else:
        suffix = "or all that have are bound early by task, VO or brokerage"
        yield f"no waiting job has its inputs at, and is accepted by, a queue with idle pilots, {suffix}"


STEP = Step(
    name=REBIND,
    place=4,
    summary="Bind waiting jobs to queues with idle pilots.",
    reads=(
        *("job_counts", "queue_reports", only_where_idle_elsewhere),
        *(waiting_jobs(JobState.ACTIVATED), ahead, *OF_JOBS, *OF_PLACES, startable, held_places),
    ),
    phases=_phases,
    rereads=True,
    asks_plugins=True,
    subjects=(TASK, QUEUE),
    idle=_idle,
    # A pilot that calls for the first time may be idle. Activated jobs wait for PATIENCE first.
    wakes_on=frozenset({("pilot", PilotState.RUNNING)}),
)
