"""Workflows as text: each task with its jobs, what it comes after, and what holds it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from pilotage.explain.layout import INDENT, Column, table
from pilotage.model.records.chains import Predecessor
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.rules import chains
from pilotage.model.values.phrases import plural

MOST_ERROR = 300
"""Most characters of an error."""

COLUMNS = (Column("task", number=True), Column("name"), Column("state"), Column("jobs"), Column("after"))


class ChainedTask(Protocol):
    """A task of a workflow."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def state(self) -> TaskState: ...
    @property
    def error(self) -> str: ...
    @property
    def held(self) -> str: ...
    @property
    def jobs(self) -> Mapping[JobState, int]: ...
    @property
    def predecessors(self) -> tuple[Predecessor, ...]: ...
    @property
    def on_end(self) -> bool: ...


class OutputReader(Protocol):
    """A task that has read outputs of another one."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def files(self) -> int: ...


def of_workflow(number: int, name: str, stages: Sequence[ChainedTask], width: int) -> Iterator[str]:
    """Yield a workflow's tasks as a table, first ones first, and below it what stops some of them."""
    yield f"workflow {number} {name}: {_states(stages)}"
    rows = [(one.id, one.name, one.state, _jobs(one.jobs), _after(one)) for one in in_order(stages)]
    yield from table(COLUMNS, rows, width)
    for one in in_order(stages):
        yield from _stopped(one)


def in_order(stages: Sequence[ChainedTask]) -> list[ChainedTask]:
    """Return tasks so that each comes after its predecessors; else by number."""
    known = {one.id: one for one in stages}
    left = {one.id: {before.task for before in one.predecessors} & known.keys() for one in stages}
    found: list[ChainedTask] = []
    while left:
        free = [id_ for id_, before in sorted(left.items()) if not before & left.keys()]
        # A store never has circles; if one had, its tasks are shown all the same.
        for id_ in free or sorted(left):
            found.append(known[id_])
            del left[id_]
    return found


def of_readers(readers: Sequence[OutputReader]) -> Iterator[str]:
    """Yield which tasks have read outputs of a task that is retried: what they read stays as it is."""
    for one in readers:
        yield (
            f"task {one.id} ({one.name}) has read {plural(one.files, 'output')} of it, and keeps what it "
            "read; submit that task again to read the new outputs too"
        )


def _states(stages: Iterable[ChainedTask]) -> str:
    counts: dict[TaskState, int] = {}
    for one in stages:
        counts[one.state] = counts.get(one.state, 0) + 1
    return ", ".join(f"{counts[state]} {state}" for state in TaskState if state in counts)


def _jobs(jobs: Mapping[JobState, int]) -> str:
    return ", ".join(f"{jobs[state]} {state}" for state in JobState if jobs.get(state))


def _after(one: ChainedTask) -> str:
    before = chains.before(one.predecessors)
    return f"{before} (any end)" if before and one.on_end else before


def _stopped(one: ChainedTask) -> Iterator[str]:
    """Yield what keeps a task from going on, or how it failed."""
    if one.state is TaskState.WAITING:
        if one.held:
            yield f"task {one.id} ({one.name}) is held by {one.held}: pilotage release {one.id} lets it go on"
        elif chains.obstacles(one.predecessors, one.on_end):
            yield f"task {one.id} ({one.name}) {chains.waiting_reason(one.id, one.predecessors, one.on_end)}"
        elif one.error:
            yield f"task {one.id} ({one.name}) waits: {one.error}"
    elif one.state is TaskState.FAILED:
        yield f"task {one.id} ({one.name}) failed: {one.error.partition(chr(10))[0][:MOST_ERROR]}"
        yield f"{INDENT}why: pilotage explain {one.id}; again: pilotage retry {one.id}"
