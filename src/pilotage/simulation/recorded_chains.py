"""Find the predecessors of recorded tasks, so that a scenario repeats their chains."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pilotage.model.records.inputs import Input, InputFile, TaskOutputs
from pilotage.model.records.spec import TaskSpec
from pilotage.model.values.paths import is_output, maker

ELSEWHERE = "recorded/"
"""Before the names of outputs of tasks that are not recorded: in a scenario they are plain files."""

LONGEST_NAME = 180
"""Most characters of a name that a number is added to."""


class Recorded(Protocol):
    """A recorded task."""

    @property
    def id(self) -> int: ...
    @property
    def spec(self) -> TaskSpec: ...
    @property
    def owner(self) -> str: ...
    @property
    def created(self) -> float: ...


@dataclass(slots=True)
class RecordedChains:
    """The chains of recorded tasks of one instance of Pilotage."""

    instance: str
    before: Mapping[int, set[int]] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)
    """The names of tasks that others come after. Each is the name of one task."""

    @classmethod
    def of(cls, tasks: Sequence[Recorded], instance: str) -> "RecordedChains":
        """Find the chains by the inputs of tasks, and by the names and numbers in their ``after``."""
        by_id = {task.id: task for task in tasks}
        named: defaultdict[tuple[str, str], list[Recorded]] = defaultdict(list)
        for task in tasks:
            named[task.owner, task.spec.name].append(task)
        before: dict[int, set[int]] = {}
        for task in tasks:
            read = (maker(instance, file.name) for file in task.spec.inputs if isinstance(file, InputFile))
            earlier_ids = {number for number in read if number is not None}
            earlier_ids |= {int(word) for word in map(str, task.spec.after) if word.isdecimal()}
            for word in map(str, task.spec.after):
                earlier = [
                    candidate
                    for candidate in named[task.owner, word]
                    if candidate.id != task.id and candidate.created <= task.created
                ]
                # All tasks of one workflow have the same time.
                earlier_ids |= (
                    {max(earlier, key=lambda candidate: (candidate.created, candidate.id)).id}
                    if earlier
                    else set()
                )
            before[task.id] = earlier_ids & by_id.keys()
        needed = {number for earlier_ids in before.values() for number in earlier_ids}
        names = {id_: f"{by_id[id_].spec.name[:LONGEST_NAME]}.{id_}" for id_ in needed}
        return cls(instance, before, names)

    def depth(self, task: int, of: Mapping[int, float], path: frozenset[int] = frozenset()) -> int:
        """Return how many tasks of the same time, from ``of``, come before a task in its longest chain."""
        # A name identifies a task only probably, so a circle is possible.
        predecessors = [
            number for number in self.before[task] if of[number] == of[task] and number not in path
        ]
        return max((1 + self.depth(number, of, path | {task}) for number in predecessors), default=0)

    def spec(self, task: Recorded) -> TaskSpec:
        """Return a task that names its predecessors, and reads their outputs instead of files."""
        inputs: list[Input] = []
        read: set[str] = set()
        for file in task.spec.inputs:
            if not isinstance(file, InputFile) or not is_output(file.name):
                inputs.append(file)
            elif (name := self.names.get(maker(self.instance, file.name) or 0)) is None:
                inputs.append(replace(file, name=f"{ELSEWHERE}{file.name}"[:500]))
            elif name not in read:
                read.add(name)
                inputs.append(TaskOutputs(task=name))
        after = tuple(self.names[number] for number in sorted(self.before[task.id]))
        name = self.names.get(task.id, task.spec.name)
        return replace(task.spec, name=name, inputs=tuple(inputs), after=after)
