"""In tests a policy that reads a field of the world which its step does not declare fails."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from pilotage.flow import step as step_module
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Step
from pilotage.model.documents.world import World
from pilotage.store import Pass
from pilotage.testing.reads import watched


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
