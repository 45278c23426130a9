"""Decide for a task as if it had other requests, or as if queues were different."""

import difflib
from collections.abc import Iterable, Mapping, Set
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, TypeVar

from pilotage.explain.comparison import FieldChange, WhatIf
from pilotage.federation import checks, documents, messages
from pilotage.federation.faults import BadDocument, Fault, Path
from pilotage.flow import planning
from pilotage.flow.loops.time_limit import TimeLimit
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Choice
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation, Queue
from pilotage.model.records.work import Measured, Task, TaskSpec
from pilotage.model.values.step_names import BROKER
from pilotage.store.worlds.work_of_tasks import brokered_again

from . import preview

Record = TypeVar("Record", TaskSpec, Queue)

MEMORY = "memory"
"""MB that a job may use on all its cores together. It replaces ``ram``, ``ram_unit: MB``, ``base_ram: 0``."""

_MEMORY_FIELDS = frozenset({"ram", "ram_unit", "base_ram"})
_OF_JOBS = frozenset({"inputs", "files_per_job", "jobs", "scouts"})
_MEASURED = {
    **{name: name for name in ("cpu_time", "base_time", "walltime", "work_disk", "out_disk")},
    **dict.fromkeys(_MEMORY_FIELDS, "memory"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Values of fields: of the task, including :data:`MEMORY`, and of queues by name."""

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
    before, after = (_choices(one, limit) for one in (world, changed(world, changes)))
    fit, would_fit = _fit(before), _fit(after)
    return WhatIf(
        time=world.time,
        seed=world.seed,
        changes=tuple(_field_changes(world, changes)),
        before=before,
        after=after,
        opened=tuple(sorted(would_fit - fit)),
        closed=tuple(sorted(fit - would_fit)),
    )


def _choices(world: World, limit: TimeLimit | None) -> tuple[Choice, ...]:
    decision = planning.plan(BROKER, world, limit)
    if aside := planning.set_aside(decision):
        raise BadDocument(Fault((), told) for told in aside.values())
    return tuple(decision.choices)


def changed(world: World, changes: Changes) -> World:
    """The same world with the changes. Raises ``BadDocument`` with the faults of the changes."""
    (task,) = world.tasks
    faults: list[Fault] = []
    federation = _with_queues(world.federation, changes.queues, faults)
    wanted = _expanded(changes.task, faults)
    spec = _with_values(task.spec, wanted, faults)
    faults += _new_faults(task, spec, replace(world, federation=federation))
    if faults:
        raise BadDocument(_named(fault, changes.task) for fault in faults)
    jobs = tuple(
        replace(
            job,
            priority=spec.priority if "priority" in wanted else job.priority,
            share=spec.share if "share" in wanted else job.share,
        )
        for job in world.jobs
    )
    other = replace(task, spec=spec, measured=_believed(task.measured, wanted))
    return replace(world, federation=federation, tasks=(other,), jobs=jobs)


def _expanded(wanted: Mapping[str, Any], faults: list[Fault]) -> dict[str, Any]:
    """Return the changed fields of a task, with memory expanded and impossible ones left out."""
    for name in sorted(_OF_JOBS & wanted.keys()):
        remedy = "plan the other task: pilotage plan broker --task FILE"
        faults.append(Fault((name,), "would make other jobs, and these are made", remedy))
    if MEMORY not in wanted:
        return dict(wanted)
    if beside := sorted(_MEMORY_FIELDS & wanted.keys()):
        message = f"is all that a job may use, in MB, and stands for {', '.join(beside)} too"
        faults.append(Fault((MEMORY,), message, "give one of them"))
    rest = {name: value for name, value in wanted.items() if name != MEMORY}
    return {**rest, "ram": wanted[MEMORY], "ram_unit": "MB", "base_ram": 0}


def _with_queues(
    federation: Federation, wanted: Mapping[str, Mapping[str, Any]], faults: list[Fault]
) -> Federation:
    known = {queue.name: queue for queue in federation.queues}
    others: dict[str, Queue] = {}
    for name, values in wanted.items():
        if name not in known:
            faults.append(_unknown_queue(name, known.keys()))
            continue
        found: list[Fault] = []
        if "name" in values:
            found.append(Fault(("name",), "is what the queue is known by", "change another field"))
        others[name] = _with_values(known[name], values, found)
        faults += [replace(fault, path=(name, *fault.path)) for fault in found]
    if not others or faults:
        return federation
    changed = replace(federation, queues=tuple(others.get(queue.name, queue) for queue in federation.queues))
    already = set(checks.federation_faults(federation))
    names = [queue.name for queue in changed.queues]
    for fault in checks.federation_faults(changed):
        if fault not in already:
            kind, place, *rest = fault.path
            path = (names[place], *rest) if kind == "queues" and isinstance(place, int) else fault.path
            faults.append(replace(fault, path=path))
    return changed


def _unknown_queue(name: str, known: Iterable[str]) -> Fault:
    near = difflib.get_close_matches(name[:200], known, n=3)
    remedy = f"did you mean {' or '.join(near)}?" if near else "pilotage queues lists them"
    return Fault((name,), "there is no such queue", remedy)


def _with_values(record: Record, wanted: Mapping[str, Any], faults: list[Fault]) -> Record:
    """Return the record with these values. Unknown fields and wrong types become faults."""
    kind = type(record)
    known: dict[str, Any] = {part.name: part for part in fields(record)}
    names = {*known, MEMORY} if kind is TaskSpec else known.keys()
    faults += [messages.unknown_field((name,), names) for name in wanted if name not in known]
    values = {name: value for name, value in wanted.items() if name in known}
    needed = {
        name: getattr(record, name)
        for name, part in known.items()
        if part.default is MISSING and part.default_factory is MISSING
    }
    try:
        read = documents.checked(kind, needed | values)
    except BadDocument as bad:
        faults += bad.faults
        return record
    return replace(record, **{name: getattr(read, name) for name in values})


def _new_faults(task: Task, spec: TaskSpec, world: World) -> list[Fault]:
    """Return why the changed task could not be accepted, without the unchanged task's own faults."""

    def faults(asked: TaskSpec) -> list[tuple[Path, str]]:
        return checks.check_task(asked, world.federation, task.owner, world.advertisements)

    already = set(faults(task.spec))
    return [Fault(path, text) for path, text in faults(spec) if (path, text) not in already]


def _named(fault: Fault, wanted: Mapping[str, Any]) -> Fault:
    """Return the fault under the name that was used."""
    return replace(fault, path=(MEMORY,)) if MEMORY in wanted and fault.path == ("ram",) else fault


def _believed(measured: Measured | None, wanted: Mapping[str, Any]) -> Measured | None:
    """Return the scouts' measurements without those that a change replaces."""
    if measured is None:
        return None
    otherwise: dict[str, Any] = {_MEASURED[name]: None for name in wanted if name in _MEASURED}
    return replace(measured, **otherwise)


def _fit(choices: Iterable[Choice]) -> Set[str]:
    return {queue for choice in choices for queue in choice.candidates.queues}


def _field_changes(world: World, changes: Changes) -> Iterable[FieldChange]:
    (task,) = world.tasks
    expected = task.expected("normal")
    for name, value in changes.task.items():
        before = expected.memory if name == MEMORY else getattr(expected, name)
        yield FieldChange(field=name, before=before, after=value)
    queues = {queue.name: queue for queue in world.federation.queues}
    for queue, values in changes.queues.items():
        for name, value in values.items():
            # The way pilots get there may hold credentials. Brokerages only read how many it may have.
            before = None if name == "computing_element" else getattr(queues[queue], name)
            yield FieldChange(field=f"{queue}.{name}", before=before, after=value)
