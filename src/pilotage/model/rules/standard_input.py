"""What a payload reads from standard input: a file of its directory, or a text of its task."""

from collections.abc import Iterator, Sequence

from pilotage.model.records.spec import TaskSpec
from pilotage.model.values.parameters import row_at
from pilotage.model.values.placeholders import OWN, filled, names
from pilotage.model.values.scopes import name_of

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
