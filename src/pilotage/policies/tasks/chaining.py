"""Start tasks that wait for predecessors, with their outputs as inputs; hold them if a predecessor failed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pilotage.model.documents.decision import Decision, Move, Value
from pilotage.model.documents.moves import task_failed
from pilotage.model.documents.serialization import to_json
from pilotage.model.documents.world import World
from pilotage.model.records.chains import MOST_MATCHED, Predecessor, Stage
from pilotage.model.records.inputs import Input, InputFile, TaskOutputs
from pilotage.model.records.spec import MOST_JOBS, LiveWork, TaskSpec
from pilotage.model.records.states import TaskState
from pilotage.model.records.work import Task
from pilotage.model.rules import chains
from pilotage.model.rules.work_budget import FILES, WorkBudget
from pilotage.model.values.identity import Identity
from pilotage.model.values.paths import path_in_job
from pilotage.model.values.patterns import matcher
from pilotage.model.values.step_names import CHAIN
from pilotage.policies.tasks.quotas import Quota

NOTHING_TO_READ = "has nothing to read"


def follow(world: World) -> Decision:
    """Register every waiting task if its predecessors have ended as it requires, longest waiting first.

    The predecessors' outputs become its inputs. A failed or cancelled predecessor holds the task, unless it
    accepts any end. A quota of unfinished work may hold it too. The task's error has the reason while it is
    held. A task fails if its inputs do not exist, or are too many.
    """
    tasks = {task.id: task for task in world.tasks if task.state is TaskState.WAITING and not task.held}
    stages = [stage for stage in world.stages if stage.task in tasks]
    moves: list[Move] = []
    grown, work = _Grown(), WorkBudget()
    for stage in sorted(stages, key=lambda stage: (tasks[stage.task].since, stage.task)):
        task = tasks[stage.task]
        work.spend(task.id, FILES, sum(len(predecessor.outputs) for predecessor in stage.predecessors))
        bad = chains.obstacles(stage.predecessors, task.on_end)
        if bad or chains.awaited(stage.predecessors):
            reason = chains.waiting_reason(task.id, stage.predecessors, task.on_end) if bad else ""
        elif fault := _fault(spec := resolved(task.spec, stage.predecessors), stage.predecessors):
            moves.append(task_failed(task, NOTHING_TO_READ, fault))
            continue
        elif not (reason := grown.refused(world, task, stage, spec)):
            moves.append(_started(task, spec, stage.predecessors))
            continue
        if reason != task.error:
            moves.append(_waiting(task, reason))
    return Decision(step=CHAIN, time=world.time, seed=world.seed, changes=tuple(moves))


def resolved(spec: TaskSpec, predecessors: Iterable[Predecessor]) -> TaskSpec:
    """Return the task with files in place of references to outputs; a reference without a match stays."""
    outputs = {predecessor.reference: predecessor.outputs for predecessor in predecessors}
    inputs: dict[str, Input] = {}
    for number, item in enumerate(spec.inputs):
        if not isinstance(item, TaskOutputs):
            inputs[item.identifier if isinstance(item, InputFile) else f"{number}"] = item
            continue
        accepts = matcher(item.match)
        matches = [file for file in outputs[str(item.task)] if accepts(path_in_job(file.name))]
        inputs |= {file.identifier: file for file in matches} if matches else {f"{number}": item}
    return replace(spec, inputs=tuple(inputs.values()))


def _fault(spec: TaskSpec, predecessors: Iterable[Predecessor]) -> str:
    """Return why a task with resolved inputs cannot run; empty if it can."""
    by_reference = {predecessor.reference: predecessor for predecessor in predecessors}
    for predecessor in by_reference.values():
        if len(predecessor.outputs) > MOST_MATCHED:
            name = f"task {predecessor.task} ({predecessor.name})"
            return f"{name} has more than {MOST_MATCHED} outputs; let it merge them"
    for item in spec.inputs:
        if isinstance(item, TaskOutputs):
            predecessor = by_reference[str(item.task)]
            count = len(predecessor.outputs)
            example = f", such as {path_in_job(predecessor.outputs[0].name)}" if count else ""
            outputs = f"its {count} outputs{example}" if count != 1 else f"its one output{example}"
            none = f"none of {outputs}, matches {item.match!r}" if count else "it has no outputs"
            return f"nothing to read of task {predecessor.task} ({predecessor.name}): {none}"
    if spec.planned_jobs > MOST_JOBS:
        return f"its {len(spec.inputs)} inputs make {spec.planned_jobs} jobs, above {MOST_JOBS}"
    return ""


@dataclass(slots=True)
class _Grown:
    """The growth of work of owners and VOs by the tasks that start in this pass."""

    users: defaultdict[tuple[str, str], LiveWork] = field(default_factory=lambda: defaultdict(LiveWork))
    vos: defaultdict[str, LiveWork] = field(default_factory=lambda: defaultdict(LiveWork))

    def refused(self, world: World, task: Task, stage: Stage, spec: TaskSpec) -> str:
        """Count a task with its inputs, or return the quotas that it would exceed."""
        owner: Identity = task.owner
        user, vo = self.users[owner.name, owner.vo], self.vos[owner.vo]
        rest = task.spec
        quota = Quota(
            world.federation.quotas,
            owner,
            LiveWork.total([stage.user, user]).without_task(rest),
            LiveWork.total([stage.vo, vo]).without_task(rest),
        )
        if faults := quota.take(spec):
            return "; ".join(text for _, text in faults)
        self.users[owner.name, owner.vo] = user.with_task(spec).without_task(rest)
        self.vos[owner.vo] = vo.with_task(spec).without_task(rest)
        return ""


def _started(task: Task, spec: TaskSpec, predecessors: Iterable[Predecessor]) -> Move:
    ended = {f"task {predecessor.task} {predecessor.state}": None for predecessor in predecessors}
    more = f" and {len(ended) - chains.MOST_NAMED} more" if len(ended) > chains.MOST_NAMED else ""
    names = f"{', '.join([*ended][: chains.MOST_NAMED])}{more}"
    spec_changes: Mapping[str, Value] = {}
    if spec != task.spec:
        spec_changes = {
            "spec": to_json(spec).decode(),
            "planned_jobs": spec.planned_jobs,
            "input_files": len(spec.inputs),
        }
    return Move(
        kind="task",
        ids=(task.id,),
        source=TaskState.WAITING,
        target=TaskState.REGISTERED,
        cause=f"starts after {names}",
        changes={"error": "", **spec_changes},
    )


def _waiting(task: Task, reason: str) -> Move:
    return Move(
        kind="task",
        ids=(task.id,),
        source=TaskState.WAITING,
        target=TaskState.WAITING,
        cause=reason or "held no more",
        changes={"error": reason},
    )
