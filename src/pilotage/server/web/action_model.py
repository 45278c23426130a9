"""What the page of an action shows before the action is done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pilotage.explain.comparison import SideBySide


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
