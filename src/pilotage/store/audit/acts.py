"""An act of a person or program: what is known of it gathers until its record is written."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from pilotage.model.documents.decision import KINDS, Change, Committed, Create, Decision, Forget, Move, Touch
from pilotage.model.records.audit import (
    LONGEST_TEXT,
    LONGEST_WHY,
    MOST_DETAILS,
    AuditDetails,
    AuditValue,
    NewAuditRecord,
)
from pilotage.model.values.identity import Credential, Identity
from pilotage.store.audit import table

MOST_NUMBERS = 5
"""Most numbers of records in a text."""

_MERGED = ("before", "after")
_UNSHOWN = ("spec", "since", "choice", "error", "ended")
"""Columns that say nothing more, or may hold what a person wrote into a payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a request asks for."""

    verb: str
    record: str = ""
    after: AuditDetails = field(default_factory=dict)
    why: str = ""
    is_question: bool = False
    """Whether it asks only what would happen. If something changes all the same, it leaves a record."""


class Act:
    """What a person or program does now.

    ``describe`` returns what it asks for; None: it changes nothing. Then it has a record only if
    ``note`` gets a verb. ``time`` returns s since 1970 UTC.
    """

    def __init__(
        self,
        time: Callable[[], float],
        server: str = "",
        *,
        credential: Credential | None = None,
        token: str = "",
        address: str = "",
        describe: Callable[[], Description | None] = lambda: None,
    ) -> None:
        self._time, self._describe = time, describe
        self._base = NewAuditRecord(time=0.0, verb="", token=token, address=address, server=server)
        if credential:
            self._base = replace(self._base, **_of(credential))
        self._facts: dict[str, Any] = {}
        self.is_recorded = False
        self.parts: list[Act] = []
        self.reads_of_others = False
        """Whether it reads what the caller sees by their role alone."""

    @property
    def is_due(self) -> bool:
        """Whether the next transaction has to write its record."""
        return not self.is_recorded and ("verb" in self._facts or self._describe() is not None)

    def note(self, **facts: Any) -> None:
        """Add fields of the record. ``by`` is a credential, ``owner`` an identity.

        Values ``before`` and ``after`` join earlier ones. Once the record is written, nothing is added.
        """
        if self.is_recorded:
            return
        self.reads_of_others |= facts.pop("reads_of_others", False)
        owner, by = facts.pop("owner", None), facts.pop("by", None)
        if isinstance(owner, Identity):
            facts |= {"owner": owner.name, "owner_vo": owner.vo}
        if isinstance(by, Credential):
            facts |= _of(by)
        for name in _MERGED:
            if name in facts:
                facts[name] = {**self._facts.get(name, {}), **facts[name]}
        self._facts |= facts

    def part(self, **facts: Any) -> "Act":
        """Return an act for a part of this one, such as one of several tasks. Each part has a record."""
        part = copy(self)
        part._facts, part.parts, part.is_recorded = {}, [], False
        part.note(**facts)
        self.parts.append(part)
        self.settle()
        return part

    def record(self) -> NewAuditRecord:
        """Return its record as of now."""
        asked = self._describe() or Description(verb="")
        facts = {"verb": asked.verb, "record": asked.record, "why": asked.why, **self._facts}
        details = {
            "before": _short(self._facts.get("before", {})),
            "after": _short({**asked.after, **self._facts.get("after", {})}),
        }
        facts |= {"record": facts["record"][:LONGEST_TEXT], "why": facts["why"][:LONGEST_WHY], **details}
        return replace(self._base, time=self._time(), **facts)

    def write(self, connection: Connection) -> None:
        """Write its record."""
        table.write(connection, self.record())

    def settle(self) -> None:
        """Remember that its record is committed."""
        self.is_recorded = True


def _short(details: AuditDetails) -> dict[str, AuditValue]:
    """Return a few values, with long texts cut."""
    items = list(details.items())[:MOST_DETAILS]
    return {
        name[:LONGEST_TEXT]: value[:LONGEST_TEXT] if isinstance(value, str) else value
        for name, value in items
    }


def _of(credential: Credential) -> dict[str, Any]:
    who = credential.identity
    return {"role": credential.role, "person": who.name, "vo": who.vo}


def has_changed(decision: Decision, committed: Committed) -> bool:
    """Return whether a commit changed any record."""
    return (
        any(committed.accepted)
        or any(committed.created)
        or any(isinstance(change, Forget) for change in decision.changes)
    )


def facts_of(decision: Decision, committed: Committed) -> Mapping[str, Any]:
    """Return the facts of a commit for the current act."""
    before: dict[str, list[str]] = defaultdict(list)
    after: dict[str, list[str]] = defaultdict(list)
    values: dict[str, Any] = {}
    created: dict[str, list[int]] = defaultdict(list)
    for change, ids, new in zip(decision.changes, committed.accepted, committed.created, strict=True):
        if isinstance(change, Move) and ids:
            name = f"{change.kind} {ids[0]}" if len(ids) == 1 else f"{len(ids)} {change.kind}s"
            before[name].append(str(change.source))
            after[name].append(str(change.target))
        if isinstance(change, Move | Touch) and ids:
            values |= {name: value for name, value in change.changes.items() if name not in _UNSHOWN}
        if isinstance(change, Forget):
            values |= {
                name: len(getattr(change, name)) for name in ("replicas", "files", "datasets", "lifted")
            }
        for kind, number in _created(change, new):
            created[kind].append(number)
    facts: dict[str, Any] = {
        "before": {name: ", ".join(states) for name, states in before.items()},
        "after": {name: ", ".join(states) for name, states in after.items()}
        | {name: value for name, value in values.items() if value not in (0, "", None)}
        | {f"new {kind}s": len(ids) for kind, ids in created.items()},
    }
    if tasks := created.get("task"):
        facts["record"] = _named(tasks)
    return facts


def _created(change: Change, new: Sequence[int | None]) -> list[tuple[str, int]]:
    if not isinstance(change, Create):
        return []
    return [
        (KINDS.get(type(record), type(record).__name__.removeprefix("New").lower()), number or 0)
        for record, number in zip(change.records, new, strict=True)
        if number is not None or type(record) not in KINDS
    ]


def _named(tasks: Sequence[int]) -> str:
    """Return ``task 5``, or ``3 tasks: 5, 6, 7``."""
    if len(tasks) == 1:
        return f"task {tasks[0]}"
    numbers = ", ".join(map(str, tasks[:MOST_NUMBERS])) + (" ..." if len(tasks) > MOST_NUMBERS else "")
    return f"{len(tasks)} tasks: {numbers}"
