"""Declarations of steps, the source of loops, wake-ups, plans and documentation, and how to run a step."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from pilotage.flow.brokerages import Brokerages
from pilotage.flow.loops.isolation import TimedPolicy, Trials
from pilotage.flow.loops.time_limit import TimeLimit
from pilotage.flow.reads import ReadPlan, Reads
from pilotage.model.documents.decision import Committed, Decision
from pilotage.model.documents.decision_parts import parts
from pilotage.model.documents.merged_decisions import joined, parted
from pilotage.model.documents.projected_world import projected
from pilotage.model.documents.subjects import TASK, Subject
from pilotage.model.documents.world import World
from pilotage.model.records.states import Kind, State
from pilotage.model.rules.plugins import plugin_of
from pilotage.store import Pass, concerns_records

if TYPE_CHECKING:
    from pilotage.flow.runtime import Runtime

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One policy of a step.

    Events of its moves name the ``actor``. ``act`` does what follows from a commit of its decision, through
    ports and without blocking. It is called after every commit, even an empty one. With ``in_parts``, the
    moves of many independent records are committed in parts. ``plugin`` is the brokerage that it asks, if
    any. A phase that ``records`` what this process did outside is also taken while the process ends.
    """

    actor: str
    decide: Callable[[World], Decision]
    act: Callable[["Runtime", World, Decision, Committed], None] | None = None
    in_parts: bool = False
    plugin: str = ""
    records: bool = False

    def timed(self, limit: TimeLimit, seconds: float | None = None) -> TimedPolicy:
        """Return the policy with a time limit.

        Each brokerage is a separate policy, though the step acts under one name.
        """
        is_named = not self.plugin or self.actor.endswith(f":{self.plugin}")
        name = self.actor if is_named else f"{self.actor}:{self.plugin}"
        return TimedPolicy(name, self.decide, limit, self.plugin, seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a job's way.

    ``place`` orders the steps in lists. ``prepare`` takes in what arrived from outside for the step, before a
    pass reads its world; a plan does not call it. ``reads`` declares the fields of its world: by name, or as
    parts with their own readers; ``bounds`` limits how much of them a pass takes. With ``asks_plugins``,
    other servers take the tasks of brokerages that this one lacks. A step without ``reads`` has no loop,
    because pilots ask for it: its policy reads ``requested_fields``.

    ``phases`` are its policies for a world, in order. With ``rereads`` each of them sees the changes of the
    ones before it. With ``foresees`` it does so without reading again, and decisions of one actor are
    committed together. ``subjects`` are the kinds of records that its policies decide about, the most likely
    culprits first: a record that makes a policy fail is set aside, and the others continue.

    ``wakes_on`` are the states of records that give it something to do. They wake it at one server, or with
    ``wakes_all_servers`` at each: its work outside is divided among them. ``idle`` yields why it changes
    nothing in a world. After a pass that changed something, another follows immediately, unless ``goes_on``
    returns False because it would find nothing. ``in_hand`` counts the calls that this process has begun
    outside and has not recorded yet.
    """

    name: str
    place: int
    summary: str
    phases: Callable[[World, Brokerages], Sequence[Phase]]
    idle: Callable[[World], Iterator[str]]
    prepare: Callable[["Runtime"], None] | None = None
    reads: Reads = ()
    requested_fields: frozenset[str] = frozenset()
    bounds: Callable[["Runtime", Pass], Pass] | None = None
    asks_plugins: bool = False
    subjects: tuple[Subject, ...] = ()
    rereads: bool = False
    foresees: bool = False
    wakes_on: frozenset[tuple[Kind, State]] = frozenset()
    wakes_all_servers: bool = False
    goes_on: Callable[["Runtime"], bool] = lambda _runtime: True
    in_hand: Callable[["Runtime"], int] | None = None

    plan: ReadPlan = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # An unreadable name fails when the step is declared, not in its first pass.
        object.__setattr__(self, "plan", ReadPlan.of(self.reads))

    @property
    def has_loop(self) -> bool:
        """Return whether the step has a loop."""
        return bool(self.reads)

    @property
    def fields(self) -> frozenset[str]:
        """Return the fields of the world that its policies, and their follow-up actions, may read."""
        return self.plan.fields | self.requested_fields

    @property
    def hears(self) -> frozenset[str]:
        """Return the fields that wake it with their news."""
        return self.plan.hears


def always(*phases: Phase) -> Callable[[World, Brokerages], Sequence[Phase]]:
    """Return a function that gives the same phases for every world."""
    return lambda _world, _brokerages: phases


def take(step: Step, runtime: "Runtime", now: Pass, *, ending: bool = False) -> int:
    """Run one pass of a step. Return how many records were moved or made.

    A pass of a server that is ``ending`` begins nothing: it only records how begun work ended.

    Records that make a policy fail, or that the store refuses, are set aside, and affect nothing else.
    """
    if not step.has_loop:
        raise ValueError(f"step {step.name} has no pass of its own")
    if step.prepare is not None:
        step.prepare(runtime)
    aside = runtime.set_aside
    excluded = aside.tasks(step.name, now.time)
    if step.asks_plugins:
        excluded |= runtime.brokerages.left_of(runtime.store.federation_version, now.time)
    if excluded:
        now = replace(now, apart=excluded)
    first = world = read_world(step, runtime, now)
    phases = [phase for phase in step.phases(world, runtime.brokerages) if phase.records or not ending]
    changed = 0
    if step.foresees:
        changed = _take_phases_together(step, runtime, world, phases, Trials())
    else:
        for number, phase in enumerate(phases):
            if number and step.rereads:
                world = read_world(step, runtime, now)
            changed += _take_phase(step, runtime, world, phase, Trials())
    aside.end_pass(step.name, world.time)
    if changed:
        runtime.kept_worlds.offer(step.name, first)
    return changed


def read_world(step: Step, runtime: "Runtime", now: Pass) -> World:
    """Read what a step declares, for a pass."""
    world = step.plan.read(runtime, step.bounds(runtime, now) if step.bounds else now)
    return without_unserved(runtime, step.name, world) if step.asks_plugins else world


def _take_phase(step: Step, runtime: "Runtime", world: World, phase: Phase, trials: Trials) -> int:
    """Decide, commit and act. Return how many records were moved or made."""
    world = runtime.set_aside.left_of(step.name, world)
    policy = phase.timed(runtime.time_limit)
    decision = runtime.set_aside.decided(step.name, step.subjects, policy, world)
    if decision is None:
        return 0
    changed = 0
    try:
        for part in parts(decision) if phase.in_parts else (decision,):
            committed = runtime.store.commit(part, phase.actor)
            changed += records_changed(committed)
            _act(step, phase, runtime, world, part, committed)
    except Exception as error:
        if not concerns_records(error):
            raise
        halves = runtime.set_aside.halves(step.name, step.subjects, world, error, trials)
        return changed + sum(_take_phase(step, runtime, half, phase, trials) for half in halves)
    return changed


def _act(
    step: Step, phase: Phase, runtime: "Runtime", world: World, decision: Decision, committed: Committed
) -> None:
    """Do what follows from a commit. Log a fault: it undoes no commit, and stops no other record."""
    if phase.act is None:
        return
    try:
        phase.act(runtime, world, decision, committed)
    except Exception:
        log.exception("step %s: what follows from a decision of %s failed", step.name, phase.actor)


def _take_phases_together(
    step: Step, runtime: "Runtime", world: World, phases: Sequence[Phase], trials: Trials
) -> int:
    """Decide phase after phase, each from the world that the earlier ones leave, with one commit per actor.

    The commit leaves out changes that are out of date, with everything that depends on them.
    """
    changed = 0
    aside = runtime.set_aside
    for actor, group in groupby(phases, key=lambda phase: phase.actor):
        outcomes: list[tuple[Phase, Decision, World]] = []
        actor_phases = list(group)
        after = world
        for phase in actor_phases:
            after = aside.left_of(step.name, after)
            policy = phase.timed(runtime.time_limit)
            decision = aside.decided(step.name, step.subjects, policy, after)
            if decision is not None:
                after = projected(after, decision) if decision.changes else after
                outcomes.append((phase, decision, after))
        decisions = [decision for _, decision, _ in outcomes]
        try:
            committed = runtime.store.commit(joined(step.name, world, decisions), actor)
        except Exception as error:
            if not concerns_records(error):
                raise
            halves = aside.halves(step.name, step.subjects, world, error, trials)
            for half in halves:
                changed += _take_phases_together(step, runtime, half, actor_phases, trials)
            continue
        changed += records_changed(committed)
        parts = parted(committed, decisions)
        for (phase, decision, world_after), part_committed in zip(outcomes, parts, strict=True):
            _act(step, phase, runtime, world, decision, part_committed)
            if not committed.handed_back:
                world = world_after
            elif decision.changes:
                world = projected(world, decision, part_committed)
    return changed


def records_changed(committed: Committed) -> int:
    """Return how many records a commit moved, touched or made."""
    moved = sum(len(ids) for ids in committed.accepted)
    created = sum(1 for ids in committed.created for record in ids if record is not None)
    return moved + created


def without_unserved(runtime: "Runtime", step: str, world: World) -> World:
    """Return the world of a step that asks plugins, without tasks of plugins that this server lacks.

    They take no room of others: the step's next pass, which follows immediately, skips them until the server
    looks for the plugin again or the federation changes.
    """
    names = {task.id: plugin_of(task.spec, task.owner.vo, world.federation) for task in world.tasks}
    lacks, limit = runtime.brokerages.lacks, runtime.time_limit
    lacking = {name for name in set(names.values()) if lacks(world.federation, name, world.time, limit)}
    unserved_tasks = {task for task, name in names.items() if name in lacking}
    if not unserved_tasks:
        return world
    runtime.brokerages.leave(unserved_tasks, world.time)
    runtime.wakeups.wake(step)
    return TASK.without(world, unserved_tasks)
