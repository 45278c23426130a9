"""Compare a decision with and without changes, as lines of text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pilotage.explain.analysis import explain
from pilotage.explain.layout import Column, table
from pilotage.explain.rendering import lines
from pilotage.explain.words import few
from pilotage.model.documents.decision import Choice
from pilotage.model.values.phrases import moment, plural

MOST_NAMED = 5
"""Most queues, and obstacles, that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field with its current and its hypothetical value: ``ram``, or ``QUEUE.max_memory``."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Choices without and with the changes, from the same world (s since 1970 UTC, seed).

    ``opened`` are queues that would take jobs only with the changes, ``closed`` only without.
    """

    time: float
    seed: int
    changes: tuple[FieldChange, ...]
    before: tuple[Choice, ...]
    after: tuple[Choice, ...]
    opened: tuple[str, ...]
    closed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """The parts of a comparison: ``title`` says the changes, ``lines`` explain the changed decision."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    """What is compared, and a text for each column."""
    lines: Sequence[str]


def compare(found: WhatIf) -> SideBySide:
    """Return the changes, both decisions in two columns, and an explanation of the changed one."""
    wanted = ", ".join(
        f"{one.field} {_value(one.after)} instead of {_value(one.before)}" for one in found.changes
    )
    columns = ("as it is", "with the change") if found.changes else ("as it is",)
    return SideBySide(
        title=f"with {wanted}" if wanted else "without any change",
        columns=columns,
        rows=[row[: 1 + len(columns)] for row in _rows(found)],
        lines=_explained(found),
    )


def side_by_side(found: WhatIf, width: int = 0) -> list[str]:
    """Return a comparison as lines of text, at most ``width`` characters wide; 0: as wide as need be."""
    made = compare(found)
    columns = tuple(map(Column, ("", *made.columns)))
    shown = table(columns, made.rows, width) if made.rows else ["It has no jobs that could be brokered."]
    return [made.title, *shown, *made.lines]


def _explained(found: WhatIf) -> list[str]:
    told = list[str]()
    for word, queues in (("opens", found.opened), ("closes", found.closed)):
        if queues:
            told.append(f"{word} {plural(len(queues), 'queue')}: {few(queues, MOST_NAMED)}")
    for choice in found.after:
        told += lines(explain(choice), f"of {moment(found.time)}{', changed' if found.changes else ''}")
    return told


def _rows(found: WhatIf) -> Iterable[tuple[str, str, str]]:
    kinds = sorted({choice.job_kind for choice in (*found.before, *found.after)})
    for kind in kinds:
        before, after = (
            _summary([choice for choice in choices if choice.job_kind == kind])
            for choices in (found.before, found.after)
        )
        of = f" ({kind} jobs)" if len(kinds) > 1 else ""
        for what in before:
            yield f"{what}{of}", before[what], after[what]


def _summary(choices: Sequence[Choice]) -> Mapping[str, str]:
    """Sum up choices under the names of the table's rows."""
    fit = {queue for choice in choices for queue in choice.candidates.queues}
    placed: dict[str, int] = {}
    for choice in choices:
        for queue, jobs in choice.placed.items():
            placed[queue] = placed.get(queue, 0) + jobs
    jobs = sum(len(choice.jobs) + choice.left for choice in choices)
    by_jobs = [f"{queue} {count}" for queue, count in sorted(placed.items(), key=lambda item: -item[1])]
    return {
        "queues that fit": f"{len(fit)} of {max((choice.considered for choice in choices), default=0)}",
        "jobs placed": f"{sum(placed.values())} of {jobs}",
        "at": few(by_jobs, MOST_NAMED) or "nowhere",
        "in the way": _obstacles(choices),
    }


def _obstacles(choices: Iterable[Choice]) -> str:
    found = [obstacle for choice in choices for obstacle in explain(choice).obstacles]
    told = dict.fromkeys(f"{one.name} at {one.queues}, alone at {one.only}" for one in found)
    return "; ".join(list(told)[:MOST_NAMED]) or "nothing"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) if isinstance(value, int | str) and value != "" else repr(value)
