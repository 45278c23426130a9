"""Read changed fields of a task, and of queues, with the same bounds as in their documents."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, TypeVar

from pilotage.federation import checks, documents, messages
from pilotage.federation.faults import BadDocument, Fault, Path
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Queue
from pilotage.model.records.job_changes import (
    MEMORY,
    MEMORY_FIELDS,
    NOT_OF_MERGES,
    OF_OTHER_JOBS,
    STAYING,
    expanded,
)
from pilotage.model.records.work import Job, Task, TaskSpec

Record = TypeVar("Record", TaskSpec, Queue)


def changed_task(
    task: Task, edits: Mapping[str, Any], world: World, faults: list[Fault]
) -> tuple[TaskSpec, dict[str, Any]]:
    """Return the specification with other values, and the changed fields with ``memory`` expanded.

    Impossible values become faults under the caller's names.
    """
    faults_here: list[Fault] = []
    for name in sorted(OF_OTHER_JOBS & edits.keys()):
        remedy = "plan the other task: pilotage plan broker --task FILE"
        faults_here.append(Fault((name,), "would make other jobs, and these are made", remedy))
    if MEMORY in edits and (parts := sorted(MEMORY_FIELDS & edits.keys())):
        message = f"is all that a job may use, in MB, and stands for {', '.join(parts)} too"
        faults_here.append(Fault((MEMORY,), message, "give one of them"))
    values = expanded(edits)
    spec = with_values(task.spec, values, faults_here)
    faults_here += _new_faults(task, spec, world)
    faults += [_named(fault, edits) for fault in faults_here]
    return spec, values


def changes_of_jobs(world: World, jobs: Iterable[Job], edits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed fields in their stored form. Raises ``BadDocument``.

    Fields of ``STAYING`` do not change for existing jobs. Merge jobs only change in the fields that they
    take from the task.
    """
    (task,) = world.tasks
    faults = [
        Fault((name,), "stays as it is for jobs that are made", "submit another task")
        for name in edits
        if name in STAYING
    ]
    variants = dict.fromkeys((job.changes, job.kind) for job in jobs) or {(task.changes, "normal"): None}
    kinds = {kind for _, kind in variants}
    if kinds == {"merge"}:
        instead = "set ram, memory or walltime"
        names = sorted(NOT_OF_MERGES & edits.keys())
        faults += [Fault((name,), "is not taken by merge jobs", instead) for name in names]
    if faults:
        raise BadDocument(faults)
    values: dict[str, Any] = {}
    for changes, kind in variants:
        spec, edited = changed_task(task.changed(changes, kind), edits, world, faults)
        values = {name: getattr(spec, name) for name in edited if name in _OF_TASKS}
    if faults:
        raise BadDocument(dict.fromkeys(faults))
    return values


_OF_TASKS = frozenset(part.name for part in fields(TaskSpec))


def with_values(record: Record, edits: Mapping[str, Any], faults: list[Fault]) -> Record:
    """Return the record with these values. Unknown fields and wrong types become faults."""
    kind = type(record)
    fields_by_name: dict[str, Any] = {part.name: part for part in fields(record)}
    names = {*fields_by_name, MEMORY} if kind is TaskSpec else fields_by_name.keys()
    faults += [messages.unknown_field((name,), names) for name in edits if name not in fields_by_name]
    values = {name: value for name, value in edits.items() if name in fields_by_name}
    needed = {
        name: getattr(record, name)
        for name, part in fields_by_name.items()
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

    def faults(candidate: TaskSpec) -> list[tuple[Path, str]]:
        # Changes leave these two alone, and checking all their values again would take long.
        candidate = replace(candidate, parameters=(), stdin="")
        return checks.check_task(candidate, world.federation, task.owner, world.advertisements)

    already = set(faults(task.spec))
    return [Fault(path, text) for path, text in faults(spec) if (path, text) not in already]


def _named(fault: Fault, edits: Mapping[str, Any]) -> Fault:
    """Return the fault under the caller's name of the field."""
    return replace(fault, path=(MEMORY,)) if MEMORY in edits and fault.path == ("ram",) else fault
