"""Give DEFINED jobs a queue, with the plugin of their task or its VO (B1 to B38)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from math import inf
from typing import Any

from pilotage.flow.brokerages import Brokerages, waits_for_cycle
from pilotage.flow.held_places import held_places
from pilotage.flow.reads import ProcessFields, startable
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, Step
from pilotage.model.circuit_breakers.storages import FailedDelivery, retried_at
from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.documents.decision_parts import piece
from pilotage.model.documents.moves import FULL
from pilotage.model.documents.subjects import QUEUE, TASK
from pilotage.model.documents.world import World
from pilotage.model.records.states import UNSTARTED_JOBS, JobState
from pilotage.model.records.work import Job, Task
from pilotage.model.rules.plugins import plugin_of
from pilotage.model.values.phrases import moment, plural
from pilotage.model.values.step_names import BROKER, LIFT, STAGE
from pilotage.policies.brokerage import soundness
from pilotage.policies.brokerage.engine.site_claims import with_site_claims
from pilotage.policies.staging import lost
from pilotage.policies.tasks import holding
from pilotage.store import Pass
from pilotage.store.worlds.broker_facts import OF_JOBS, OF_PLACES, ahead, waiting_jobs
from pilotage.store.worlds.parts import Reading, only_where, part


def plugins(world: World) -> list[str]:
    """Return the plugins of a world's tasks, by name."""
    return sorted({_plugin_of(task, world) for task in world.tasks})


def _plugin_of(task: Task, world: World) -> str:
    return plugin_of(task.spec, task.owner.vo, world.federation)


def decide(world: World, plugin: str, brokerages: Brokerages) -> Decision:
    """Return the decision of one plugin for its tasks, within the limits of all sites (M8).

    Raises ``brokerage.PluginError`` and the plugin's exceptions.
    """
    return with_site_claims(chosen(world, plugin, brokerages), world)


def chosen(world: World, plugin: str, brokerages: Brokerages) -> Decision:
    """Return the decision of one plugin for its tasks, within the limits for every brokerage.

    The caller must claim the limits of sites.
    """
    plugin_world = restricted(world, plugin)
    if not plugin_world.jobs:
        return Decision(step=BROKER, time=world.time, seed=world.seed)
    # NumPy loads with the first work.
    from pilotage.policies.brokerage.engine.guarded_decisions import guarded_decision
    from pilotage.policies.brokerage.engine.guards import is_guarded

    decide = brokerages.of(world.federation, plugin).decide
    decision = soundness.check(plugin, decide(plugin_world), plugin_world)
    if not is_guarded(decide):
        decision = guarded_decision(decision, plugin_world)
    changes = {job.id: job.changes for job in plugin_world.jobs}
    moves = chain.from_iterable(_as_read(move, changes) for move in decision.moves)
    return replace(decision, changes=tuple(moves))


def _as_read(move: Move, changes: Mapping[int, str]) -> Iterator[Move]:
    """Yield the move, in parts of jobs with the same changes.

    The commit leaves out a job that a person has changed since.
    """
    if len({changes[id_] for id_ in move.ids}) == 1:
        yield replace(move, changes_read=changes[move.ids[0]])
        return
    for text, run in groupby(range(len(move.ids)), key=lambda place: changes[move.ids[place]]):
        places = list(run)
        yield replace(piece(move, places[0], places[-1] + 1), changes_read=text)


def restricted(world: World, plugin: str) -> World:
    """Return the same world with only the tasks and jobs of one plugin."""
    tasks = tuple(task for task in world.tasks if _plugin_of(task, world) == plugin)
    if len(tasks) == len(world.tasks):
        return world
    ids = {task.id for task in tasks}
    return replace(
        world,
        tasks=tasks,
        jobs=tuple(job for job in world.jobs if job.task in ids),
        ahead=tuple(job for job in world.ahead if job.task in ids),
    )


def place(world: World, plugin: str, brokerages: Brokerages) -> Decision:
    """Decide for one plugin, with pending jobs as if DEFINED. Fitting ones are placed.

    The loop's own world contains jobs that are pending for lack of room. A whole saved world, perhaps edited,
    shows where all of them would go.
    """
    pending = {job.id for job in world.jobs if job.state is JobState.PENDING}
    if not pending:
        return decide(world, plugin, brokerages)
    jobs = (replace(job, state=JobState.DEFINED) if job.id in pending else job for job in world.jobs)
    decision = decide(replace(world, jobs=tuple(jobs)), plugin, brokerages)
    moves = chain.from_iterable(_as_pending(move, pending) for move in decision.moves)
    return replace(decision, changes=tuple(moves))


def _as_pending(move: Move, pending: Set[int]) -> Iterator[Move]:
    """Yield the move for its DEFINED jobs, and another for its pending ones.

    If it would make jobs PENDING, the pending ones stay as they are.
    """
    if pending.isdisjoint(move.ids):
        yield move
        return
    stays = move.target is JobState.PENDING
    # In runs, so that the oldest take capacity first.
    for is_pending, run in groupby(range(len(move.ids)), key=lambda place: move.ids[place] in pending):
        if is_pending and stays:
            continue
        places = list(run)
        yield replace(
            piece(move, places[0], places[-1] + 1),
            source=JobState.PENDING if is_pending else move.source,
            changes={**move.changes, "wake_at": None} if is_pending else move.changes,
        )


def lifted(world: World, plugin: str, brokerages: Brokerages) -> Decision:
    """Release pending jobs early if a plugin would place them as if DEFINED (B37).

    Jobs that wait because a storage failed them stay until their time comes, or the storage works again (F4).
    """
    plugin_world = restricted(world, plugin)
    pending = tuple(
        replace(job, state=JobState.DEFINED)
        for job in _ready(plugin_world.jobs, plugin_world.failed_deliveries, plugin_world)
        if job.state is JobState.PENDING
    )
    placed: set[int] = set()
    if pending and not waits_for_cycle(brokerages.of(world.federation, plugin)):
        moves = decide(replace(world, jobs=pending), plugin, brokerages).moves
        placed.update(id_ for move in moves if move.target in UNSTARTED_JOBS for id_ in move.ids)
    changes = (_lift(placed),) if placed else ()
    return Decision(step=LIFT, time=world.time, seed=world.seed, changes=changes)


def _lift(jobs: Set[int]) -> Move:
    return Move(
        kind="job",
        ids=tuple(sorted(jobs)),
        source=JobState.PENDING,
        target=JobState.DEFINED,
        cause="a queue would take it now",
        changes={"wake_at": None},
    )


def _bounds(runtime: Runtime, now: Pass) -> Pass:
    """Limit a pass to jobs that may find room, and to pending jobs that only lacked room."""
    read_plan = runtime.broker_read_plan
    pending_for_room = read_plan.pending_for_room(runtime.store.snapshots.tasks_pending_for_room)
    return replace(now, portions=partial(read_plan.parts, now=now), pending_for_room=pending_for_room)


@part("jobs")
def _ready_jobs(reading: Reading) -> Mapping[str, Any]:
    """Read the jobs, with only the ready ones of pending jobs."""
    if not reading.now.pending_for_room:
        return {}
    return {"jobs": _ready(reading["jobs"], reading["failed_deliveries"], reading.world)}


def _ready(jobs: Iterable[Job], failed: Sequence[FailedDelivery], world: World) -> tuple[Job, ...]:
    """Return the jobs, without pending ones that still wait out a storage's failure (F4)."""
    again = retried_at(failed, world.federation.staging)
    return tuple(
        job for job in jobs if job.state is not JobState.PENDING or again.get(job.id, -inf) <= world.time
    )


def _unanswered(runtime: Runtime, world: World) -> Mapping[str, Any]:
    """Return the last reports of servers that do not answer, if sites advertise."""
    return {"server_reports": runtime.elements.inquiries.unanswered() if world.advertisements else ()}


def _note(runtime: Runtime, world: World, decision: Decision, committed: Committed, plugin: str) -> None:
    """Record which jobs found room. If none did, scan the skipped tasks now."""
    gone: set[int] = set()
    pending_for_room: set[int] = set()
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if isinstance(change, Move) and change.kind == "job":
            (pending_for_room if change.cause == FULL else gone).update(ids)
    read = restricted(world, plugin).jobs
    if pending_for_room:
        runtime.broker_read_plan.wait_for_room(job.task for job in read if job.id in pending_for_room)
    if not runtime.broker_read_plan.note(read, gone):
        runtime.wakeups.wake(BROKER)


def _phases(world: World, brokerages: Brokerages) -> Sequence[Phase]:
    """Let each plugin decide about its own tasks. If one fails, only these wait."""
    deciding = [
        Phase(
            actor=f"{BROKER}:{plugin}",
            decide=partial(place, plugin=plugin, brokerages=brokerages),
            act=partial(_note, plugin=plugin),
            plugin=plugin,
        )
        for plugin in plugins(world)
    ]
    if any(task.held for task in world.tasks):
        deciding.insert(0, Phase(actor=BROKER, decide=holding.hold_back))
    if lost.any_lost(world):
        # First: no brokerage should place a job that can never run.
        deciding.insert(0, Phase(actor=STAGE, decide=lost.fail))
    return deciding


def _idle(world: World) -> Iterator[str]:
    states = Counter(job.state for job in world.jobs)
    if not states[JobState.DEFINED]:
        yield "no job is defined, which is what is brokered"
    wakes = [job.wake_at for job in world.jobs if job.state is JobState.PENDING and job.wake_at is not None]
    if states[JobState.PENDING]:
        until = f" until {moment(min(wakes))} at the earliest" if wakes else ""
        yield f"{plural(states[JobState.PENDING], 'job')} pending{until}: no queue takes them"


STEP = Step(
    name=BROKER,
    place=2,
    summary="Give defined jobs a queue, each plugin for its own tasks.",
    reads=(
        *(waiting_jobs(JobState.DEFINED), only_where("jobs"), "tasks", ahead, *OF_JOBS, *OF_PLACES),
        *(_ready_jobs, startable, held_places, ProcessFields(("server_reports",), _unanswered)),
    ),
    bounds=_bounds,
    phases=_phases,
    rereads=True,
    asks_plugins=True,
    subjects=(TASK, QUEUE),
    idle=_idle,
    wakes_on=frozenset({("job", JobState.DEFINED), ("job", JobState.SENT), ("job", JobState.RUNNING)}),
    goes_on=lambda runtime: runtime.broker_read_plan.goes_on(has_changed=runtime.wakeups.waits(BROKER)),
)
