"""Decide for a task as if it had other requests, or as if queues were different."""

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from pilotage.explain.comparison import FieldChange, WhatIf
from pilotage.federation import checks
from pilotage.federation.faults import BadDocument, Fault
from pilotage.federation.messages import nearest
from pilotage.flow import planning
from pilotage.flow.calls.work import preview
from pilotage.flow.calls.work.task_fields import changed_task, with_values
from pilotage.flow.loops.time_limit import TimeLimit
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Choice
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation, Queue
from pilotage.model.records.job_changes import MEMORY, STAYING
from pilotage.model.records.unified_queues import conditioned, unconditioned
from pilotage.model.values.step_names import BROKER
from pilotage.policies.tasks.changing import with_changes
from pilotage.store.tasks.work import brokered_again


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Values of fields: of the task, including ``MEMORY``, and of queues by name."""

    task: Mapping[str, Any] = field(default_factory=dict)
    queues: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def run(runtime: Runtime, changes: Changes, task: int, job: int | None = None) -> WhatIf:
    """Broker a task's jobs again, or one of them, without and with changes. Raises ``BadDocument``."""
    limit = runtime.store.federation().loops.batch
    world = runtime.world(*brokered_again(task, job), batch=limit)
    world = runtime.elements.reported(world)
    return decide(world if world.jobs else preview.split_up(world), changes, runtime.time_limit)


def decide(world: World, changes: Changes, limit: TimeLimit | None = None) -> WhatIf:
    """Decide for the one task of this world (pure). Raises ``BadDocument``.

    It also raises this if the task needs too much counted work, or its brokerage exceeds the ``limit``.
    """
    return compared(world, changed(world, changes), _field_changes(world, changes), limit)


def compared(
    world: World, alternative: World, field_changes: Iterable[FieldChange], limit: TimeLimit | None = None
) -> WhatIf:
    """Decide for the one task of two worlds, the second of them changed (pure); see ``decide``."""
    before = _choices(world, limit)
    after = before if alternative is world else _choices(alternative, limit)
    fit, would_fit = _fit(before), _fit(after)
    return WhatIf(
        time=world.time,
        seed=world.seed,
        changes=tuple(field_changes),
        before=before,
        after=after,
        opened=tuple(sorted(would_fit - fit)),
        closed=tuple(sorted(fit - would_fit)),
    )


def _choices(world: World, limit: TimeLimit | None) -> tuple[Choice, ...]:
    decision = planning.plan(BROKER, world, limit)
    if aside := planning.set_aside(decision):
        raise BadDocument(Fault((), reason) for reason in aside.values())
    return tuple(decision.choices)


def changed(world: World, changes: Changes) -> World:
    """The same world with the changes. Raises ``BadDocument`` with the faults of the changes."""
    (task,) = world.tasks
    faults: list[Fault] = []
    federation = _with_queues(world.federation, changes.queues, faults)
    spec, edits = changed_task(task, changes.task, replace(world, federation=federation), faults)
    if faults:
        raise BadDocument(faults)
    values = {name: getattr(spec, name) for name in edits}
    lasting = {name: value for name, value in values.items() if name in STAYING}
    alternative = replace(
        world, federation=federation, tasks=(replace(task, spec=replace(task.spec, **lasting)),)
    )
    # As by ``set``: merge jobs have other needs, and jobs may have been changed before.
    return with_changes(alternative, {name: value for name, value in values.items() if name not in STAYING})


def _with_queues(
    federation: Federation, edits: Mapping[str, Mapping[str, Any]], faults: list[Fault]
) -> Federation:
    queues_by_name = {queue.name: queue for queue in federation.queues}
    edited: dict[str, Queue] = {}
    for name, values in edits.items():
        if name not in queues_by_name:
            faults.append(_unknown_queue(name, queues_by_name.keys()))
            continue
        faults_here: list[Fault] = []
        if "name" in values:
            faults_here.append(Fault(("name",), "is what the queue is known by", "change another field"))
        edited[name] = with_values(queues_by_name[name], values, faults_here)
        faults += [replace(fault, path=(name, *fault.path)) for fault in faults_here]
    if not edited or faults:
        return federation
    queues = (
        edited.get(queue.name)
        or (unconditioned(queue, queues_by_name[queue.parent]) if queue.parent in edited else queue)
        for queue in federation.queues
    )
    changed = conditioned(replace(federation, queues=tuple(queues)))
    already = set(checks.federation_faults(federation))
    names = [queue.name for queue in changed.queues]
    for fault in checks.federation_faults(changed):
        if fault not in already:
            kind, place, *rest = fault.path
            path = (names[place], *rest) if kind == "queues" and isinstance(place, int) else fault.path
            faults.append(replace(fault, path=path))
    return changed


def _unknown_queue(name: str, names: Collection[str]) -> Fault:
    near = nearest(name, names, number=3)
    remedy = f"did you mean {' or '.join(near)}?" if near else "pilotage queues lists them"
    return Fault((name,), "there is no such queue", remedy)


def _fit(choices: Iterable[Choice]) -> Set[str]:
    return {queue for choice in choices for queue in choice.candidates.queues}


def _field_changes(world: World, changes: Changes) -> Iterable[FieldChange]:
    (task,) = world.tasks
    # Jobs may have been changed before.
    first = next(iter(world.jobs), None)
    kind = first.kind if first else "normal"
    expected = task.changed(first.changes if first else "", kind).expected(kind)
    for name, value in changes.task.items():
        before = expected.memory if name == MEMORY else getattr(expected, name)
        yield FieldChange(field=name, before=before, after=value)
    queues = {queue.name: queue for queue in world.federation.queues}
    for queue, values in changes.queues.items():
        for name, value in values.items():
            # A computing element's options may hold credentials, so do not show them.
            before = None if name == "computing_element" else getattr(queues[queue], name)
            yield FieldChange(field=f"{queue}.{name}", before=before, after=value)
