"""What a task that comes after others waits for, in words."""

from collections.abc import Iterable, Sequence

from pilotage.model.records.chains import Predecessor
from pilotage.model.records.inputs import TaskOutputs
from pilotage.model.records.spec import TaskSpec
from pilotage.model.records.states import LIVE_TASKS, TaskState
from pilotage.model.rules.plain_states import TASK_STATES

_ENDED_BADLY = (TaskState.FAILED, TaskState.CANCELLED)
MOST_NAMED = 3
"""Most tasks that a sentence names."""

_STATES = {
    **{state: f"is {TASK_STATES[state].word}" for state in LIVE_TASKS},
    TaskState.WAITING: "waits itself",
    TaskState.FINISHED: "is done",
    TaskState.FAILED: "failed",
    TaskState.CANCELLED: "was cancelled",
}


def references(spec: TaskSpec) -> dict[str, str]:
    """Return the tasks that a task comes after, by name or number, each with its first field."""
    fields: dict[str, str] = {}
    for at, reference in enumerate(spec.after):
        fields.setdefault(str(reference), f"after[{at}]")
    for at, item in enumerate(spec.inputs):
        if isinstance(item, TaskOutputs):
            fields.setdefault(str(item.task), f"inputs[{at}].task")
    return fields


def awaited(predecessors: Iterable[Predecessor]) -> list[Predecessor]:
    """Return the tasks that have not ended."""
    return [predecessor for predecessor in predecessors if predecessor.state in LIVE_TASKS]


def obstacles(predecessors: Iterable[Predecessor], on_end: bool) -> list[Predecessor]:
    """Return the tasks that did not finish, and so hold their successors."""
    return [predecessor for predecessor in predecessors if predecessor.state in _ENDED_BADLY and not on_end]


def waiting_reason(task: int, predecessors: Sequence[Predecessor], on_end: bool) -> str:
    """Return why a task waits for others, and what lets it go on; empty if they have all ended well."""
    if bad := obstacles(predecessors, on_end):
        again = " ".join(str(predecessor.task) for predecessor in bad[:MOST_NAMED])
        verb = f"pilotage retry {again} runs {'it' if len(bad) == 1 else 'them'} again"
        return f"is held: {_named(bad)}; {verb}, pilotage release {task} starts it with what is there"
    waiting = awaited(predecessors)
    return f"waits: {_named(waiting)}" if waiting else ""


def why_not_yet(bad: Predecessor) -> str:
    """Return why a task waits for others that wait themselves, for one that did not finish."""
    return f"is held: before it, {_named([bad])}; pilotage retry {bad.task} runs that again"


def before(predecessors: Iterable[Predecessor]) -> str:
    """Return the tasks that a task comes after, by number and name; empty if there are none."""
    named = dict.fromkeys(f"{predecessor.task} {predecessor.name}" for predecessor in predecessors)
    return ", ".join(named)


def _named(predecessors: Sequence[Predecessor]) -> str:
    words = [
        f"task {predecessor.task} ({predecessor.name}) {_STATES[predecessor.state]}"
        for predecessor in predecessors[:MOST_NAMED]
    ]
    more = len(predecessors) - MOST_NAMED
    return ", ".join([*words, *([f"and {more} more"] if more > 0 else [])])
