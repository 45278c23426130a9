"""Workflows as text: each task with its jobs, its predecessors, and the reason if it is held."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from pilotage.explain.layout import Column, table
from pilotage.explain.remarks import lines
from pilotage.model.documents.remarks import Remark, RemarkKind
from pilotage.model.records.chains import Predecessor, StageReuse
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.rules import chains
from pilotage.model.rules.plain_states import PlainWord, jobs_phrase, task_state
from pilotage.model.values.phrases import plural, reuse

MOST_ERROR = 300
"""Most characters of an error."""

COLUMNS = (Column("task", number=True), Column("name"), Column("state"), Column("jobs"), Column("after"))


class HeldTask(Protocol):
    """A task that may be held."""

    @property
    def id(self) -> int: ...
    @property
    def state(self) -> TaskState: ...
    @property
    def error(self) -> str: ...
    @property
    def held(self) -> str: ...


class ChainedTask(HeldTask, Protocol):
    """A task of a workflow."""

    @property
    def name(self) -> str: ...
    @property
    def jobs(self) -> Mapping[JobState, int]: ...
    @property
    def predecessors(self) -> tuple[Predecessor, ...]: ...
    @property
    def on_end(self) -> bool: ...


Stage = TypeVar("Stage", bound=ChainedTask)


class OutputReader(Protocol):
    """A task that has read outputs of another one."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def files(self) -> int: ...


def of_workflow(
    number: int,
    name: str,
    stages: Sequence[ChainedTask],
    width: int,
    remarks: Iterable[tuple[ChainedTask, Remark]],
    reuses: Sequence[StageReuse] = (),
) -> Iterator[str]:
    """Yield a workflow's tasks, in order, as a table, and below it remarks: why some tasks do not start.

    Of a resumed workflow, ``reuses`` say which stages earlier tasks stand for, and why others run.
    """
    yield f"workflow {number} {name}: {_states(stages)}"
    rows = [
        (
            stage.id,
            stage.name,
            str(task_state(stage.state, stage.jobs, stage.held)),
            jobs_phrase(stage.jobs),
            _after(stage),
        )
        for stage in stages
    ]
    yield from table(COLUMNS, rows, width)
    for stage, remark in remarks:
        if remark.kind != "wait" or stage.error:
            first, *more = lines([remark])
            yield from (f"task {stage.id} ({stage.name}): {first}", *more)
    for stage_reuse in reuses:
        yield reuse(stage_reuse.name, stage_reuse.task, stage_reuse.reason)


def in_order(stages: Sequence[Stage]) -> list[Stage]:
    """Return tasks by number, but each after its predecessors."""
    by_id = {stage.id: stage for stage in stages}
    predecessors = {
        stage.id: {before.task for before in stage.predecessors} & by_id.keys() for stage in stages
    }
    order: list[Stage] = []
    while predecessors:
        free = [id_ for id_, before in sorted(predecessors.items()) if not before & predecessors.keys()]
        # A store never has circles. If one had, show its tasks too, instead of looping forever.
        for id_ in free or sorted(predecessors):
            order.append(by_id[id_])
            del predecessors[id_]
    return order


def of_readers(readers: Sequence[OutputReader]) -> Iterator[str]:
    """Yield the tasks that have read outputs of a retried task: they keep the old outputs."""
    for reader in readers:
        yield (
            f"task {reader.id} ({reader.name}) has read {plural(reader.files, 'output')} of it, and keeps "
            "what it read; submit that task again to read the new outputs too"
        )


def _states(stages: Iterable[ChainedTask]) -> str:
    words = Counter(task_state(stage.state, stage.jobs, stage.held).word for stage in stages)
    return ", ".join(f"{words[word]} {word}" for word in PlainWord if words[word])


def _after(stage: ChainedTask) -> str:
    before = chains.before(stage.predecessors)
    return f"{before} (any end)" if before and stage.on_end else before


def stops(
    task: HeldTask, predecessors: Sequence[Predecessor], on_end: bool, bad: Predecessor | None = None
) -> Iterator[Remark]:
    """Yield who holds a task, and which of its predecessors have not finished.

    ``bad`` is an earlier task that did not finish; None if it is a direct predecessor, or if there is none.
    """
    subject, obstacles = f"task:{task.id}", chains.obstacles(predecessors, on_end)
    if task.held:
        # A release does not help a task that lacks a secret: it would soon be held again.
        command = "" if task.held.startswith("its ") else f"pilotage release {task.id}"
        text = f"held by {task.held}: nothing of it starts"
        yield Remark(kind="held", subject=subject, text=text, mend="user", command=command)
    if task.state is TaskState.WAITING and (obstacles or bad or not task.held):
        reason = (
            chains.why_not_yet(bad)
            if bad and not obstacles
            else chains.waiting_reason(task.id, predecessors, on_end)
        )
        text = f"it {reason or task.error or 'starts with the next pass'}"
        kind: RemarkKind = "blocked" if obstacles or bad else "wait"
        yield Remark(kind=kind, subject=subject, text=text, mend="user" if obstacles or bad else "wait")


def of_stages(stages: Iterable[Stage]) -> Iterator[tuple[Stage, Remark]]:
    """Yield why tasks of a workflow do not start, and why some failed."""
    for stage in stages:
        for remark in stops(stage, stage.predecessors, stage.on_end):
            yield stage, remark
        if stage.state is TaskState.FAILED:
            text = (
                f"failed: {stage.error.partition(chr(10))[0][:MOST_ERROR]}; why: pilotage explain {stage.id}"
            )
            command = f"pilotage retry {stage.id}"
            yield (
                stage,
                Remark(kind="fault", subject=f"task:{stage.id}", text=text, mend="user", command=command),
            )
