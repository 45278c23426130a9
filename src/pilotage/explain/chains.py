"""Workflows as text: each task with its jobs, what it comes after, and what holds it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from pilotage.explain.layout import Column, table
from pilotage.explain.remarks import lines
from pilotage.model.documents.remarks import Remark, RemarkKind
from pilotage.model.records.chains import Predecessor
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.rules import chains
from pilotage.model.values.phrases import plural

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
    for one, remark in of_stages(in_order(stages)):
        if remark.kind != "wait" or one.error:
            first, *more = lines([remark])
            yield from (f"task {one.id} ({one.name}): {first}", *more)


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


def stops(
    one: HeldTask, predecessors: Sequence[Predecessor], on_end: bool, bad: Predecessor | None = None
) -> Iterator[Remark]:
    """Yield who holds a task, and what it comes after that has not finished.

    ``bad`` did not finish, somewhere before it; None: it is among the predecessors, or there is none.
    """
    subject, own = f"task:{one.id}", chains.obstacles(predecessors, on_end)
    if one.held:
        # What lacks a secret would be held again at once.
        command = "" if one.held.startswith("its ") else f"pilotage release {one.id}"
        text = f"held by {one.held}: nothing of it starts"
        yield Remark(kind="held", subject=subject, text=text, mend="user", command=command)
    if one.state is TaskState.WAITING and (own or bad or not one.held):
        behind = (
            chains.why_not_yet(bad)
            if bad and not own
            else chains.waiting_reason(one.id, predecessors, on_end)
        )
        text = f"it {behind or one.error or 'goes on with the next pass'}"
        kind: RemarkKind = "blocked" if own or bad else "wait"
        yield Remark(kind=kind, subject=subject, text=text, mend="user" if own or bad else "wait")


def of_stages(stages: Iterable[ChainedTask]) -> Iterator[tuple[ChainedTask, Remark]]:
    """Yield what stops the tasks of a workflow, and how some failed."""
    for one in stages:
        for remark in stops(one, one.predecessors, one.on_end):
            yield one, remark
        if one.state is TaskState.FAILED:
            text = f"failed: {one.error.partition(chr(10))[0][:MOST_ERROR]}; why: pilotage explain {one.id}"
            command = f"pilotage retry {one.id}"
            yield one, Remark(kind="fault", subject=f"task:{one.id}", text=text, mend="user", command=command)
