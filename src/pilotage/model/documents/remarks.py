"""Remarks: why a record does not go on, who can mend that and how, and what else is known of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from pilotage.model.values.types import DESCRIBED

Mend = Literal["user", "operator", "wait"]
RemarkKind = Literal[
    "held", "blocked", "fault", "wait", "warning", "line", "end", "publication", "notification"
]
_ORDER = {kind: rank for rank, kind in enumerate(get_args(RemarkKind))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One reason, or another fact about a record. The server makes it, and everything else shows it."""

    __pydantic_config__ = DESCRIBED

    kind: RemarkKind
    """What it is, from what matters most: ``held`` by a person, ``blocked`` by a task before it that did not
    finish; a ``fault``, which stops it until a person acts; what it has to ``wait`` for; a ``warning`` of a
    fault that is sure to come; its place in ``line``; its likely ``end``; the state of the ``publication`` of
    its outputs, and of a ``notification``."""
    subject: str
    """The record that it is about: ``task:12``, ``queue:north``."""
    text: str
    """The fact, as a clause."""
    rule: str = ""
    """Number of the published rule behind it; empty: none."""
    mend: Mend | Literal[""] = ""
    """Who can mend it; ``wait``: time will; empty: no one needs to."""
    action: str = ""
    """What they can do, in words; empty: the text or the command is enough."""
    command: str = ""
    """The command that mends it, or shows more; empty: none."""
    since: float | None = None
    """Since when, in s since 1970 UTC; null: unknown."""
    until: float | None = None
    """When it changes at the latest, or is tried again, in s since 1970 UTC; null: unknown."""


def in_order(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """Return the remarks, most important first, and only the first of several with the same text."""
    by_text = dict[str, Remark]()
    for remark in sorted(remarks, key=lambda remark: _ORDER[remark.kind]):
        by_text.setdefault(remark.text, remark)
    return tuple(by_text.values())
