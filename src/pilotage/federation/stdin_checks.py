"""Faults of a task's standard input: it must be a file that each job has, or a text."""

from collections import Counter
from collections.abc import Iterator

from pilotage.federation.faults import Fault
from pilotage.federation.messages import nearest
from pilotage.model.records.inputs import InputFile
from pilotage.model.records.spec import MOST_JOBS, TaskSpec
from pilotage.model.rules.job_payload import ONE_INPUT, named_files
from pilotage.model.values.parameters import row_count

MOST_BYTES = 100_000
"""Most bytes of a text."""

LONGEST_NAME = 4096
"""Most bytes of a file's name, before its values are in."""

_FIELD = ("stdin",)
_TEXT = "for a text end it with a line break, as a block after a |"


def stdin_faults(spec: TaskSpec) -> Iterator[Fault]:
    """Yield faults of the standard input of a task."""
    if not spec.stdin:
        return
    if not spec.command:
        yield Fault(_FIELD, "is for an empty payload", "give a command that reads it")
    if "\n" in spec.stdin:
        if len(spec.stdin.encode()) > MOST_BYTES:
            yield Fault(_FIELD, f"is longer than {MOST_BYTES} bytes", "name a payload file or an input")
    elif spec.stdin == ONE_INPUT:
        yield from _one_input(spec)
    elif len(spec.stdin.encode()) > LONGEST_NAME:
        yield Fault(_FIELD, f"is a name longer than {LONGEST_NAME} bytes", _TEXT)
    elif spec.planned_jobs <= MOST_JOBS:  # more jobs are a fault of other fields
        yield from _names(spec)


def _one_input(spec: TaskSpec) -> Iterator[Fault]:
    if not spec.inputs:
        yield Fault(_FIELD, "names the input of each job, and there are none", _TEXT)
    elif any(isinstance(item, InputFile) and item.rows for item in spec.inputs):
        yield from _one_a_row(spec)
    elif spec.files_per_job > 1:
        yield Fault(_FIELD, "names the one input of each job", "leave files_per_job out")


def _one_a_row(spec: TaskSpec) -> Iterator[Fault]:
    inputs = Counter(row for item in spec.inputs if isinstance(item, InputFile) for row in item.rows)
    shared = sum(1 for item in spec.inputs if not isinstance(item, InputFile) or not item.rows)
    for row in range(row_count(spec.parameters)):
        if inputs[row] + shared != 1:
            message = f"names the one input of each job, and row {row} has {inputs[row] + shared}"
            yield Fault(_FIELD, message, "read one in the command; inputs.txt lists them")
            return


def _names(spec: TaskSpec) -> Iterator[Fault]:
    inputs = {item.name for item in spec.inputs if isinstance(item, InputFile)}
    # A new task may have patterns that are not resolved yet.
    all_known = len(inputs) == len(spec.inputs)
    is_shared = spec.groups_of_inputs <= 1
    if is_shared and not all_known:
        return
    files = inputs.union(spec.payload_files)
    for name in named_files(spec):
        if name in inputs and not is_shared:
            remedy = f"write {ONE_INPUT} for each job's own, or let each read all by files_per_job"
            yield Fault(_FIELD, f"{name!r} is read by one job, not by each", remedy)
            return
        if all_known and name not in files:
            near = nearest(name, sorted(files))
            remedy = f"did you mean {near[0]}? {_TEXT}" if near else _TEXT
            yield Fault(_FIELD, f"{name[:100]!r} is no input and no payload file", remedy)
            return
