"""Faults of a workflow: names that are not unique, circles of tasks, and too many of them."""

from collections.abc import Iterator, Mapping, Sequence

from pilotage.model.records.chains import MOST_STAGES
from pilotage.model.records.spec import MOST_PREDECESSORS, TaskSpec
from pilotage.model.rules.chains import references

WorkflowFault = tuple[int, str, str]
"""The index of a task in its workflow, the field, and its fault."""

MOST_SHOWN = 10
"""Most tasks of a circle that a message names."""


def workflow_faults(specs: Sequence[TaskSpec]) -> list[WorkflowFault]:
    """Return the faults of tasks as a workflow. Its tasks refer to each other by name."""
    if len(specs) > MOST_STAGES:
        message = f"is one of {len(specs)} tasks, above the {MOST_STAGES} of a workflow; submit several"
        return [(MOST_STAGES, "name", message)]
    first: dict[str, int] = {}
    faults: list[WorkflowFault] = []
    for at, spec in enumerate(specs):
        if spec.name in first:
            message = f"{spec.name!r} is the name of tasks[{first[spec.name]}] already; give it another one"
            faults.append((at, "name", message))
        first.setdefault(spec.name, at)
    faults += too_many(specs)
    return faults or [*_circle(specs, first)]


def too_many(specs: Sequence[TaskSpec]) -> Iterator[WorkflowFault]:
    """Yield tasks that come after too many others."""
    for at, spec in enumerate(specs):
        if (number := len(references(spec))) > MOST_PREDECESSORS:
            yield at, "after", f"comes after {number} tasks with its inputs, above {MOST_PREDECESSORS}"


def _circle(specs: Sequence[TaskSpec], names: Mapping[str, int]) -> Iterator[WorkflowFault]:
    """Yield the first circle of tasks that come after each other, with its path."""
    before = [
        {names[name]: field for name, field in references(spec).items() if name in names} for spec in specs
    ]
    done: set[int] = set()
    for start in range(len(specs)):
        path: list[int] = []
        # Each entry is a task and its remaining predecessors. Do not use recursion: a chain may be long.
        stack = [(start, iter(before[start]))] if start not in done else []
        while stack:
            at, rest = stack[-1]
            if len(path) < len(stack):
                path.append(at)
            following = next((name for name in rest if name not in done), None)
            if following is None:
                done.add(path.pop())
                stack.pop()
            elif following in path:
                yield _circle_fault(specs, [*path[path.index(following) :], following], before)
                return
            else:
                stack.append((following, iter(before[following])))


def _circle_fault(
    specs: Sequence[TaskSpec], path: Sequence[int], before: Sequence[Mapping[int, str]]
) -> WorkflowFault:
    # The path goes back in time. Reverse it, so that the message begins with the first task.
    names = [specs[at].name for at in reversed(path)]
    shown_names = names if len(names) <= MOST_SHOWN else [*names[: MOST_SHOWN - 1], "...", names[-1]]
    message = f"makes a circle, in which no task can be the first: {' -> '.join(shown_names)}"
    return path[0], before[path[0]][path[1]], message
