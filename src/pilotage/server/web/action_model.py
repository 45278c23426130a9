"""What the page of an action shows before the action is done, and the fields that its form changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, Field

from pilotage.explain.comparison import SideBySide
from pilotage.model.records.spec import TaskSpec

LABELS = {"memory": "Memory, MB", "walltime": "Walltime, s", "cores": "Cores", "priority": "Priority"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """An action that makes sense now, with the address of its page."""

    label: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAction:
    """A text that an action needs."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    most: int = 200
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionModel:
    """What an action will change, before it does.

    ``fields`` are of a form that only looks; ``asked`` of the one that acts.
    """

    heading: str
    says: Sequence[str]
    lines: Sequence[str] = ()
    comparison: SideBySide | None = None
    faults: Sequence[str] = ()
    fields: Sequence[tuple[str, str, str]] = ()
    asked: Sequence[AskedAction] = ()
    hidden: Mapping[str, str] = field(default_factory=dict)
    address: str
    button: str
    can: bool = True
    is_dangerous: bool = False
    may_insist: bool = False
    back: str


class FieldQuery(BaseModel):
    """Values that a person asks for; none leaves a field as it is."""

    memory: Annotated[float | None, Field(gt=0, le=1e9, allow_inf_nan=False)] = None
    walltime: Annotated[float | None, Field(gt=0, le=1e9, allow_inf_nan=False)] = None
    cores: Annotated[int | None, Field(ge=1, le=100_000)] = None
    priority: Annotated[int | None, Field(ge=-(10**6), le=10**6)] = None

    def changes(self) -> Mapping[str, Any]:
        """Return the fields to change, named as in a task."""
        return {name: _whole(value) for name, value in self.model_dump(exclude_none=True).items()}


def shown_fields(query: FieldQuery, spec: TaskSpec | None = None) -> Sequence[tuple[str, str, str]]:
    """Return name, label and current value of each field of a form; what the task asks for is its hint."""
    asked = query.changes()
    return [(name, _label(name, spec), str(asked.get(name, ""))) for name in LABELS]


def _label(name: str, spec: TaskSpec | None) -> str:
    now = getattr(spec, name, None)
    return LABELS[name] + (f" (now {_whole(now)})" if now not in (None, 0) else "")


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value == int(value) else value
