"""What steps have set aside, in words, for whoever looks at the record that it concerns."""

from collections.abc import Callable
from itertools import chain

from pilotage.explain import stuck
from pilotage.flow.loops.isolation import POLICY
from pilotage.flow.loops.set_aside import PERSON, person
from pilotage.flow.runtime import Runtime
from pilotage.model.rules.plugins import plugin_of
from pilotage.model.values.identity import Identity
from pilotage.store import SetAsideRecord, Store, TaskDetails


def of(runtime: Runtime, *subjects: tuple[str, int | str]) -> list[str]:
    """Say which steps have set something aside, why, and what lifts it, by kind and name."""
    records = runtime.store.set_aside
    return list(
        stuck.of_set_aside(chain.from_iterable(records.of(kind, str(name)) for kind, name in subjects))
    )


MOST_LINES = 1000
"""Most lines on what is set aside in one answer."""

EVERYBODYS = ("queue", "site", "task queue")
"""Kinds of records whose names everybody may read."""


def everything(runtime: Runtime, *, to_operators: bool) -> list[str]:
    """Say so of records, with their kinds and names, in at most ``MOST_LINES`` lines; to others than
    operators, of nobody's own."""
    lines = [
        f"{one.subject} {one.name}: {line}"
        for one in runtime.store.set_aside.everything()
        if to_operators or one.subject in EVERYBODYS
        for line in stuck.of_set_aside([one])
    ]
    left = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"and {left} more records"] if left > 0 else lines


def errors(store: Store, subject: str) -> dict[str, str]:
    """Return why records of a kind are set aside, by name, in a few words for a list."""
    return {
        one.name: f"set aside by step {one.step}: {one.error}"
        for one in store.set_aside.everything()
        if one.subject == subject
    }


def of_task(runtime: Runtime, task: TaskDetails) -> list[str]:
    """Say so of a task, and of all that its brokerage decides, for its owner or for anybody."""
    owner = Identity(name=task.owner, vo=task.vo)
    plugin = plugin_of(task.spec, owner.vo, runtime.store.federation())
    ends = {POLICY: f":{plugin}", PERSON: f":{person(plugin, owner)}"}
    return _found(
        runtime,
        lambda one: (
            (one.subject, one.name) == ("task", str(task.id))
            or one.name.endswith(ends.get(one.subject, "\0"))
        ),
    )


def _found(runtime: Runtime, concerns: Callable[[SetAsideRecord], bool]) -> list[str]:
    return list(stuck.of_set_aside(one for one in runtime.store.set_aside.everything() if concerns(one)))
