"""Read changed fields of a task, and of queues: the bounds are those of the documents."""

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
    task: Task, wanted: Mapping[str, Any], world: World, faults: list[Fault]
) -> tuple[TaskSpec, dict[str, Any]]:
    """Return the specification with other values, and the changed fields with ``memory`` expanded.

    What cannot be becomes faults under the names that were used.
    """
    found: list[Fault] = []
    for name in sorted(OF_OTHER_JOBS & wanted.keys()):
        remedy = "plan the other task: pilotage plan broker --task FILE"
        found.append(Fault((name,), "would make other jobs, and these are made", remedy))
    if MEMORY in wanted and (beside := sorted(MEMORY_FIELDS & wanted.keys())):
        message = f"is all that a job may use, in MB, and stands for {', '.join(beside)} too"
        found.append(Fault((MEMORY,), message, "give one of them"))
    values = expanded(wanted)
    spec = with_values(task.spec, values, found)
    found += _new_faults(task, spec, world)
    faults += [_named(fault, wanted) for fault in found]
    return spec, values


def changes_of_jobs(world: World, jobs: Iterable[Job], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed fields in their stored form. Raises ``BadDocument``.

    Fields of ``STAYING`` do not change for jobs that are made. Of merge jobs only those change that they
    take from the task.
    """
    (task,) = world.tasks
    faults = [
        Fault((name,), "stays as it is for jobs that are made", "submit another task")
        for name in wanted
        if name in STAYING
    ]
    seen = dict.fromkeys((job.changes, job.kind) for job in jobs) or {(task.changes, "normal"): None}
    kinds = {kind for _, kind in seen}
    if kinds == {"merge"}:
        instead = "set ram, memory or walltime"
        names = sorted(NOT_OF_MERGES & wanted.keys())
        faults += [Fault((name,), "is not taken by merge jobs", instead) for name in names]
    if faults:
        raise BadDocument(faults)
    values: dict[str, Any] = {}
    for changes, kind in seen:
        spec, given = changed_task(task.changed(changes, kind), wanted, world, faults)
        values = {name: getattr(spec, name) for name in given if name in _OF_TASKS}
    if faults:
        raise BadDocument(dict.fromkeys(faults))
    return values


_OF_TASKS = frozenset(part.name for part in fields(TaskSpec))


def with_values(record: Record, wanted: Mapping[str, Any], faults: list[Fault]) -> Record:
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
        # These two stay, and a check of all their values for each set of changes takes long.
        asked = replace(asked, parameters=(), stdin="")
        return checks.check_task(asked, world.federation, task.owner, world.advertisements)

    already = set(faults(task.spec))
    return [Fault(path, text) for path, text in faults(spec) if (path, text) not in already]


def _named(fault: Fault, wanted: Mapping[str, Any]) -> Fault:
    """Return the fault under the name that was used."""
    return replace(fault, path=(MEMORY,)) if MEMORY in wanted and fault.path == ("ram",) else fault
