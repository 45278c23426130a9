"""Find the tasks that submitted tasks come after: in their workflow, or among the owner's earlier ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pilotage.federation.workflow_checks import too_many, workflow_faults
from pilotage.flow.calls.data.inputs import Fault
from pilotage.model.records.work import TaskSpec
from pilotage.model.rules.chains import references
from pilotage.model.values.identity import Identity
from pilotage.store import Store

NOBODY: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Links:
    """The predecessors of a task by its words for them: earlier tasks by number, others by their place."""

    earlier: Mapping[str, int] = field(default_factory=dict)
    fellows: Mapping[str, int] = field(default_factory=dict)

    def after(self, tasks: Mapping[int, int], places: Mapping[int, int]) -> "Links":
        """Return the links where earlier tasks stand for some fellows, and others have new places."""
        stand_ins = {word: tasks[at] for word, at in self.fellows.items() if at in tasks}
        fellows = {word: places[at] for word, at in self.fellows.items() if at not in tasks}
        return Links({**self.earlier, **stand_ins}, fellows)


@dataclass(frozen=True, slots=True)
class Chains:
    """The predecessors of submitted tasks by index, and the faults of words that name none."""

    links: Mapping[int, Links] = field(default_factory=dict)
    faults: Mapping[int, list[Fault]] = field(default_factory=dict)


def find_predecessors(store: Store, specs: Sequence[TaskSpec], owner: Identity, is_workflow: bool) -> Chains:
    """Return the predecessors of tasks: in a workflow its own tasks first, then the owner's newest ones."""
    wordings = [references(spec) for spec in specs]
    if not is_workflow and not any(wordings):
        return Chains()
    faults: dict[int, list[Fault]] = {}
    for at, field_name, message in workflow_faults(specs) if is_workflow else too_many(specs):
        faults.setdefault(at, []).append((field_name, message))
    if faults:
        return Chains(faults=faults)
    names = {spec.name: at for at, spec in enumerate(specs)} if is_workflow else NOBODY
    unlisted = {word for words in wordings for word in words if word not in names}
    numbers = store.workflow_queries.tasks_named(owner, unlisted)
    links: dict[int, Links] = {}
    for at, words in enumerate(wordings):
        fellows = {word: names[word] for word in words if word in names}
        links[at] = Links({word: numbers[word] for word in words if word in numbers}, fellows)
        unknown = {word: place for word, place in words.items() if word in unlisted and word not in numbers}
        if unknown:
            faults[at] = [(place, _unknown(word, specs)) for word, place in unknown.items()]
    return Chains(links, faults)


def _unknown(word: str, specs: Sequence[TaskSpec]) -> str:
    if word.isdecimal():
        return f"there is no task {word}, or it is not yours"
    together = any(spec.name == word for spec in specs)
    hint = "; it is in this submission: name that with workflow: NAME" if together else ""
    return f"you have no task of the name {word!r}{hint}"


def completed(spec: TaskSpec) -> TaskSpec:
    """Return the task with everything that it comes after in ``after``: inputs become files later."""
    words = references(spec)
    declared = tuple(spec.after)
    named = {str(task) for task in declared}
    more = tuple(word for word in words if word not in named)
    return replace(spec, after=(*declared, *more)) if more else spec
