"""Chains: tasks that come after other tasks, with what a decision about them reads."""

from dataclasses import dataclass, field

from pilotage.model.records.inputs import InputFile
from pilotage.model.records.spec import LiveWork
from pilotage.model.records.states import TaskState
from pilotage.model.values.types import DESCRIBED

MOST_STAGES = 200
"""Most tasks of a workflow."""

MOST_MATCHED = 100_000
"""Most outputs of one task that another reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predecessor:
    """A task that another one comes after."""

    __pydantic_config__ = DESCRIBED

    reference: str
    """The name or number that the later task gives it."""
    task: int
    """Its number."""
    name: str
    """Its name."""
    state: TaskState
    """Its state."""
    outputs: tuple[InputFile, ...] = ()
    """Its outputs, if all predecessors have ended and the later task reads them: at most ``MOST_MATCHED``,
    and one more if there are more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A task that waits for other tasks."""

    __pydantic_config__ = DESCRIBED

    task: int
    """Its number."""
    predecessors: tuple[Predecessor, ...]
    """The tasks that it comes after."""
    user: LiveWork = field(default_factory=LiveWork)
    """Unfinished work of its owner, with itself."""
    vo: LiveWork = field(default_factory=LiveWork)
    """Unfinished work of its VO, with itself."""
