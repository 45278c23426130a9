"""In tests a policy that reads a field of the world which its step does not declare fails."""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import pytest

from pilotage.flow import step as step_module
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Step
from pilotage.model.documents.world import World
from pilotage.store import Pass

FIELDS = frozenset(one.name for one in fields(World))
CARRIERS = frozenset(
    {
        "dataclasses",
        "pilotage.flow.outside.kept_worlds",
        "pilotage.model.documents.projected_world",
        "pilotage.model.documents.subjects",
    }
)
"""Modules that hand a world on, or keep it: they read its fields for no decision."""


class UndeclaredRead(BaseException):
    """A policy read a field of the world that its step does not declare: there it is always empty.

    No Exception: steps set aside what an Exception tells of, and go on.
    """


def watched(world: World, reader: str, declared: Collection[str], seen: set[str]) -> World:
    """The same world for a ``reader``. What is read of it is added to ``seen``.

    Raises ``UndeclaredRead`` where a field is read that is not ``declared``.
    """

    def read(self: World, name: str) -> Any:
        if name in FIELDS and sys._getframe(1).f_globals["__name__"] not in CARRIERS:
            seen.add(name)
            if name not in declared:
                raise UndeclaredRead(f"{reader} reads world.{name}, and does not declare it in its reads")
        return object.__getattribute__(self, name)

    kind = type("WatchedWorld", (World,), {"__slots__": (), "__getattribute__": read})
    made: World = kind(**{name: getattr(world, name) for name in FIELDS})
    return made


@contextmanager
def watched_steps() -> Iterator[Mapping[str, set[str]]]:
    """Let each step that is taken see no field that it does not declare; gives the fields read, by step."""
    seen: defaultdict[str, set[str]] = defaultdict(set)
    read_world = step_module.read_world

    def watched_world(step: Step, runtime: Runtime, now: Pass) -> World:
        return watched(read_world(step, runtime, now), f"step {step.name}", step.fields, seen[step.name])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(step_module, "read_world", watched_world)
        yield seen


@pytest.fixture(autouse=True)
def _watched_steps() -> Iterator[None]:
    with watched_steps():
        yield
