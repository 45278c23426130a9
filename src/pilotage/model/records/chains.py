"""Chains: tasks that come after other tasks, with what a decision about them reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pilotage.model.records.inputs import InputFile
from pilotage.model.records.spec import LiveWork, TaskSpec
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReuse:
    """What a resumed workflow does with a stage: it skips the stage, or it runs it for a reason."""

    __pydantic_config__ = DESCRIBED

    name: str
    """The stage's name."""
    task: int | None = None
    """The earlier task that it is compared with; none: there is none."""
    reason: str = ""
    """Why the stage runs; empty: the earlier task takes its place."""

    @property
    def is_skipped(self) -> bool:
        """Whether the earlier task takes the stage's place."""
        return not self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierTask:
    """A task of before that a stage may refer to, with what it made."""

    __pydantic_config__ = DESCRIBED

    task: int
    """Its number."""
    name: str
    """Its name."""
    state: TaskState
    """Its state."""
    spec: TaskSpec
    """Its specification, with files for the outputs that it read."""
    is_partial: bool = False
    """Whether a person ended it with what it had."""
    outputs: tuple[InputFile, ...] = ()
    """Its results, if it has finished: at most ``MOST_MATCHED``, and one more if there are more."""
    incomplete_jobs: int = 0
    """Its finished jobs that lack outputs in the catalogue."""
    lost_outputs: int = 0
    """Its outputs that are gone or changed at their storages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStage:
    """A stage of a workflow that is to be resumed."""

    __pydantic_config__ = DESCRIBED

    spec: TaskSpec
    """Its specification, with files for the patterns in it."""
    fellows: Mapping[str, int] = field(default_factory=dict)
    """Stages that it comes after, by its words for them: their places among the stages."""
    earlier: Mapping[str, int] = field(default_factory=dict)
    """Other tasks that it comes after, by number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedWorkflow:
    """The stages of a workflow that is submitted again, and what is there already."""

    __pydantic_config__ = DESCRIBED

    stages: tuple[NewStage, ...]
    """Its stages."""
    candidates: Mapping[str, tuple[EarlierTask, ...]]
    """By name, the owner's tasks of that name in workflows of the same name, newest first."""
    others: Mapping[int, EarlierTask] = field(default_factory=dict)
    """By number, tasks outside of the workflow that stages come after."""
