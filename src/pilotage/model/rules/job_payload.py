"""What differs between the payloads of a task's jobs: index, parameters, and all texts that name these."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pilotage.model.records.spec import MOST_JOBS, TaskSpec
from pilotage.model.records.states import TaskState
from pilotage.model.values.parameters import row_at
from pilotage.model.values.placeholders import OWN, VARIABLE, filled, names
from pilotage.model.values.scopes import name_of

if TYPE_CHECKING:
    from pilotage.model.records.work import Job, Task

ONE_INPUT = "{input}"
"""Stands for the one input of each job."""


def stdin_file(spec: TaskSpec, inputs: Sequence[str]) -> str:
    """Return the path of the file in a job's directory; empty if it is a text, or nothing.

    ``inputs`` are the identifiers of the job's inputs.
    """
    if not spec.stdin or "\n" in spec.stdin:
        return ""
    if spec.stdin in spec.payload_files:
        return spec.stdin
    return f"inputs/{name_of(inputs[0]) if spec.stdin == ONE_INPUT and inputs else spec.stdin}"


def named_files(spec: TaskSpec) -> Iterator[str]:
    """Yield the names that jobs read from, each with its own values in it."""
    strict = bool(spec.parameters)
    differs_by_job = any(name in OWN for name in names(spec.stdin, strict))
    groups = max(1, spec.groups_of_inputs)
    # Jobs of one row differ by their own values alone.
    step = 1 if differs_by_job else groups if strict else max(1, spec.planned_jobs)
    for index in range(0, spec.planned_jobs, step):
        row = row_at(spec.parameters, index // groups) if strict else {}
        yield filled(spec.stdin, {**dict.fromkeys(OWN, str(index)), **row}, strict)


_TASKS = 8999
"""Consecutive tasks with different seeds for all jobs. More would need seeds above 900 million, the most that
common generators take."""


def seed_of(task: "Task", index: int) -> int:
    """Return the seed of a job. No other job of the task has it, and it stays the same at each attempt."""
    return first_seed(task.spec, task.id) + index


def first_seed(spec: TaskSpec, task: int) -> int:
    """Return the seed of a task's first job, by the task's number."""
    return 1 + task % _TASKS * MOST_JOBS if spec.seed is None else spec.seed


def parameters_of(spec: TaskSpec, index: int | None) -> dict[str, str]:
    """Return the parameters of a job by its index; nothing for a merge job, or without parameters."""
    if index is None or not spec.parameters or index >= spec.planned_jobs:
        return {}
    return row_at(spec.parameters, index // max(1, spec.groups_of_inputs))


def variables(task: "Task", job: "Job") -> dict[str, str]:
    """Return the variables that tell a payload which job of its task it is.

    The payload learns the number of jobs once all are made. In a task that reads files, a job processes the
    events of its files, so it has no first event.
    """
    variables = {}
    if job.index is not None:
        variables = {
            f"PILOTAGE_{name.upper()}": value for name, value in _job_values(task, job.index).items()
        }
        rows = parameters_of(task.spec, job.index)
        variables |= {f"{VARIABLE}{name}": value for name, value in rows.items()}
    if task.state in (TaskState.RUNNING, TaskState.MERGING) and not task.finishing:
        variables["PILOTAGE_JOBS"] = str(task.spec.planned_jobs)
    return variables


def payload_of(task: "Task", job: "Job", spec: TaskSpec) -> TaskSpec:
    """Return the specification of a job: ``spec``, for its kind, with its own values in all texts."""
    if job.index is None or job.kind == "merge":
        return spec
    strict = bool(spec.parameters)
    templates = (*spec.command, *spec.environment.values(), *spec.outputs, *spec.optional_outputs, spec.stdin)
    if not strict and "{" not in "".join(templates):
        return spec
    values = {**_job_values(task, job.index), **parameters_of(spec, job.index)}

    def texts(templates: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(filled(template, values, strict) for template in templates)

    environment = {name: filled(text, values, strict) for name, text in spec.environment.items()}
    command = texts(spec.command)
    outputs, optional = texts(spec.outputs), texts(spec.optional_outputs)
    stdin = spec.stdin if spec.stdin == ONE_INPUT else filled(spec.stdin, values, strict)
    after = (command, environment, outputs, optional, stdin)
    before = (spec.command, spec.environment, spec.outputs, spec.optional_outputs, spec.stdin)
    if not strict and after == before:
        return spec
    return replace(
        spec,
        command=command,
        environment=environment,
        outputs=outputs,
        optional_outputs=optional,
        stdin=stdin,
        parameters=(),
    )


def _job_values(task: "Task", index: int) -> Mapping[str, str]:
    values = {"index": str(index), "seed": str(seed_of(task, index))}
    if not task.spec.inputs:
        values["first_event"] = str(index * task.spec.events_per_job)
    return values
