"""What a task that comes after others waits for, in words."""

from collections.abc import Iterable, Sequence

from pilotage.model.records.chains import Predecessor
from pilotage.model.records.inputs import TaskOutputs
from pilotage.model.records.spec import TaskSpec
from pilotage.model.records.states import LIVE_TASKS, TaskState

_ENDED_BADLY = (TaskState.FAILED, TaskState.CANCELLED)
MOST_NAMED = 3
"""Most tasks that a sentence names."""

_STATES = {
    **{state: f"is {state}" for state in LIVE_TASKS},
    TaskState.WAITING: "waits itself",
    TaskState.FINISHED: "finished",
    TaskState.FAILED: "failed",
    TaskState.CANCELLED: "was cancelled",
}


def references(spec: TaskSpec) -> dict[str, str]:
    """Return the tasks that a task comes after, by name or number, each with its first field."""
    found: dict[str, str] = {}
    for at, reference in enumerate(spec.after):
        found.setdefault(str(reference), f"after[{at}]")
    for at, item in enumerate(spec.inputs):
        if isinstance(item, TaskOutputs):
            found.setdefault(str(item.task), f"inputs[{at}].task")
    return found


def awaited(predecessors: Iterable[Predecessor]) -> list[Predecessor]:
    """Return the tasks that have not ended."""
    return [one for one in predecessors if one.state in LIVE_TASKS]


def obstacles(predecessors: Iterable[Predecessor], on_end: bool) -> list[Predecessor]:
    """Return the tasks that did not finish, and so hold their successors."""
    return [one for one in predecessors if one.state in _ENDED_BADLY and not on_end]


def why(task: int, predecessors: Sequence[Predecessor], on_end: bool) -> str:
    """Return why a task waits for others, and what lets it go on; empty if they have all ended well."""
    if bad := obstacles(predecessors, on_end):
        again = " ".join(str(one.task) for one in bad[:MOST_NAMED])
        verb = f"pilotage retry {again} runs {'it' if len(bad) == 1 else 'them'} again"
        return f"is held: {_named(bad)}; {verb}, pilotage release {task} starts it with what is there"
    left = awaited(predecessors)
    return f"waits: {_named(left)}" if left else ""


def why_not_yet(bad: Predecessor) -> str:
    """Return why a task waits for others that wait themselves, for one that did not finish."""
    return f"is held: before it, {_named([bad])}; pilotage retry {bad.task} runs that again"


def before(predecessors: Iterable[Predecessor]) -> str:
    """Return the tasks that a task comes after, by number and name; empty if there are none."""
    named = dict.fromkeys(f"{one.task} {one.name}" for one in predecessors)
    return ", ".join(named)


def _named(found: Sequence[Predecessor]) -> str:
    words = [f"task {one.task} ({one.name}) {_STATES[one.state]}" for one in found[:MOST_NAMED]]
    more = len(found) - MOST_NAMED
    return ", ".join([*words, *([f"and {more} more"] if more > 0 else [])])
