"""Decide which stages of a workflow that is submitted again need not run: what they made is there."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from pilotage.model.records.chains import EarlierTask, NewStage, Predecessor, ResumedWorkflow, StageReuse
from pilotage.model.records.inputs import Input, InputFile, TaskOutputs
from pilotage.model.records.spec import RELEASE, TaskSpec
from pilotage.model.records.states import LIVE_TASKS, TaskState
from pilotage.model.values.paths import is_output
from pilotage.model.values.phrases import plural
from pilotage.policies.tasks.chaining import resolved

DECISIVE: Sequence[tuple[str, Sequence[str]]] = (
    ("its command changed", ("command", "stdin", "payload_files", "mounts", "strict_processes")),
    (
        "its environment changed",
        (
            *("environment", "conda", "modules", "container_name", "secrets", "architecture"),
            *RELEASE,
        ),
    ),
    (
        "its parameters changed",
        ("parameters", "jobs", "events_per_job", "min_events", "event_service", "seed"),
    ),
    ("its inputs are split otherwise", ("files_per_job",)),
    ("its outputs are named otherwise", ("outputs", "optional_outputs", "destinations", "output_dataset")),
    ("its merge changed", ("merge",)),
)
"""Fields that decide what a task makes, and what to say if one has changed. Others, such as memory and
priority, decide where and when it runs."""

MOST_REASONS = 3
"""Most reasons that are named."""

FIRST_TIME = "it has not run in a workflow of this name"
_ENDS = {TaskState.FAILED: "failed", TaskState.CANCELLED: "was cancelled"}


def resume(workflow: ResumedWorkflow) -> Iterator[tuple[int, StageReuse]]:
    """Yield what becomes of each stage, with its place. A circle must have been refused before."""
    reuses: dict[int, StageReuse] = {}
    tasks: dict[int, EarlierTask] = {}
    for at in _in_order(workflow.stages):
        stage = workflow.stages[at]
        candidates = workflow.candidates.get(stage.spec.name, ())
        reuse = reuses[at] = _reuse(stage, candidates, reuses, tasks, workflow)
        if reuse.is_skipped:
            tasks[at] = next(task for task in candidates if task.task == reuse.task)
        yield at, reuse


def _in_order(stages: Sequence[NewStage]) -> Iterator[int]:
    """Yield the places of stages, each after those before it."""
    waiting = {at: set(stage.fellows.values()) for at, stage in enumerate(stages)}
    while waiting:
        free = [at for at, before in waiting.items() if not before & waiting.keys()]
        for at in free or [*waiting]:
            yield at
            del waiting[at]


def _reuse(
    stage: NewStage,
    candidates: Sequence[EarlierTask],
    reuses: dict[int, StageReuse],
    tasks: dict[int, EarlierTask],
    workflow: ResumedWorkflow,
) -> StageReuse:
    name = stage.spec.name
    if not candidates:
        return StageReuse(name=name, reason=FIRST_TIME)
    newest = candidates[0]
    again = [at for at in stage.fellows.values() if not reuses[at].is_skipped]
    if again:
        return StageReuse(name=name, task=newest.task, reason=f"stage {reuses[again[0]].name} runs again")
    finished = [task for task in candidates if task.state is TaskState.FINISHED]
    if not finished:
        return StageReuse(name=name, task=newest.task, reason=_unfinished(newest))
    before = {word: tasks[at] for word, at in stage.fellows.items()}
    before |= {
        word: workflow.others[number] for word, number in stage.earlier.items() if number in workflow.others
    }
    if live := [task for task in before.values() if task.state in LIVE_TASKS]:
        return StageReuse(name=name, task=newest.task, reason=f"task {live[0].task} before it has not ended")
    predecessors = [
        Predecessor(reference=word, task=task.task, name=task.name, state=task.state, outputs=task.outputs)
        for word, task in before.items()
    ]
    spec = resolved(stage.spec, predecessors)
    differences = [(task, [*_differences(spec, task)]) for task in finished]
    # Of the one that fits best, the newest first: `min` keeps the first of equal ones.
    task, reasons = min(differences, key=lambda pair: len(pair[1]))
    return StageReuse(name=name, task=task.task, reason=", ".join(reasons[:MOST_REASONS]))


def _unfinished(task: EarlierTask) -> str:
    return f"task {task.task} {_ENDS.get(task.state, f'is {task.state}')}"


def _differences(spec: TaskSpec, earlier: EarlierTask) -> Iterator[str]:
    """Yield why an earlier task does not stand for a stage."""
    for reason, names in DECISIVE:
        if any(getattr(spec, name) != getattr(earlier.spec, name) for name in names):
            yield reason
    if changed := _changed_input(spec.inputs, earlier.spec.inputs):
        yield changed
    if earlier.is_partial:
        yield f"task {earlier.task} was ended with a part of its outputs"
    if earlier.lost_outputs:
        yield f"{plural(earlier.lost_outputs, 'output')} of task {earlier.task} gone or changed"
    elif earlier.incomplete_jobs:
        yield f"outputs of {plural(earlier.incomplete_jobs, 'job')} of task {earlier.task} are gone"


def _changed_input(now: Sequence[Input], before: Sequence[Input]) -> str:
    """Return the first difference of the files that are read; empty if there is none."""
    known = {item.identifier: item for item in before if isinstance(item, InputFile)}
    names = {item.identifier for item in now if isinstance(item, InputFile)}
    for item in now:
        if isinstance(item, TaskOutputs):
            return f"nothing of {item.task} matches {item.match!r}"
        if isinstance(item, InputFile) and not _same(item, known.get(item.identifier)):
            if is_output(item.name):
                return "it reads other outputs of earlier tasks"
            return f"input {item.name} {'changed' if item.identifier in known else 'is new'}"
    for item in before:
        if isinstance(item, InputFile) and item.identifier not in names:
            return f"input {item.name} is no input now"
    pairs = zip_longest(now, before)
    is_in_order = all(_name(first) == _name(second) for first, second in pairs)
    return "" if is_in_order else "its inputs are in another order"


def _name(item: Input | None) -> str:
    return item.identifier if isinstance(item, InputFile) else ""


def _same(now: InputFile, before: InputFile | None) -> bool:
    """Return whether two descriptions may be of the same bytes. Checksums of two kinds are not compared."""
    if before is None or (now.size, now.rows) != (before.size, before.rows):
        return False
    kinds = {item.checksum.partition(":")[0] for item in (now, before)}
    return now.checksum == before.checksum or len(kinds) > 1
