"""Compare a decision with and without changes, as lines of text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pilotage.explain.analysis import explain
from pilotage.explain.layout import Column, table
from pilotage.explain.rendering import alone, lines
from pilotage.explain.words import few
from pilotage.model.documents.decision import Choice
from pilotage.model.values.phrases import moment, plural

MOST_NAMED = 5
"""Most queues, or obstacles, to name."""


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
    """The parts of a comparison: ``title`` names the changes, ``lines`` explain the changed decision."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    """The compared property, then its text in each column."""
    lines: Sequence[str]


def compare(what_if: WhatIf) -> SideBySide:
    """Return the changes, both decisions in two columns, and an explanation of the changed one."""
    changes = ", ".join(
        f"{change.field} {_value(change.after)} instead of {_value(change.before)}"
        for change in what_if.changes
    )
    columns = ("as it is", "with the change") if what_if.changes else ("as it is",)
    return SideBySide(
        title=f"with {changes}" if changes else "without any change",
        columns=columns,
        rows=[row[: 1 + len(columns)] for row in _rows(what_if)],
        lines=_explain_changes(what_if),
    )


def side_by_side(what_if: WhatIf, width: int = 0) -> list[str]:
    """Return a comparison as lines of text, at most ``width`` characters wide; 0 means no limit."""
    comparison = compare(what_if)
    columns = tuple(map(Column, ("", *comparison.columns)))
    rows = (
        table(columns, comparison.rows, width)
        if comparison.rows
        else ["It has no jobs that could be brokered."]
    )
    return [comparison.title, *rows, *comparison.lines]


def _explain_changes(what_if: WhatIf) -> list[str]:
    text = list[str]()
    for word, queues in (("opens", what_if.opened), ("closes", what_if.closed)):
        if queues:
            text.append(f"{word} {plural(len(queues), 'queue')}: {few(queues, MOST_NAMED)}")
    for choice in what_if.after:
        text += lines(explain(choice), f"of {moment(what_if.time)}{', changed' if what_if.changes else ''}")
    return text


def _rows(what_if: WhatIf) -> Iterable[tuple[str, str, str]]:
    kinds = sorted({choice.job_kind for choice in (*what_if.before, *what_if.after)})
    for kind in kinds:
        before, after = (
            _summary([choice for choice in choices if choice.job_kind == kind])
            for choices in (what_if.before, what_if.after)
        )
        of = f" ({kind} jobs)" if len(kinds) > 1 else ""
        for title in before:
            yield f"{title}{of}", before[title], after[title]


def _summary(choices: Sequence[Choice]) -> Mapping[str, str]:
    """Sum up choices, by the titles of the table's rows."""
    fit = {queue for choice in choices for queue in choice.candidates.queues}
    placed: dict[str, int] = {}
    for choice in choices:
        for queue, jobs in choice.placed.items():
            placed[queue] = placed.get(queue, 0) + jobs
    jobs = sum(len(choice.jobs) + choice.left for choice in choices)
    by_jobs = [f"{queue} {count}" for queue, count in sorted(placed.items(), key=lambda item: -item[1])]
    considered = max((choice.considered for choice in choices), default=0)
    return {
        "queues that take them": f"{len(fit)} of {considered}",
        "jobs placed": f"{sum(placed.values())} of {jobs}",
        "at": few(by_jobs, MOST_NAMED) or "nowhere",
        "obstacles": _obstacles(choices),
    }


def _obstacles(choices: Iterable[Choice]) -> str:
    obstacles = [obstacle for choice in choices for obstacle in explain(choice).obstacles]
    texts = dict.fromkeys(
        f"{obstacle.name} at {plural(obstacle.queues, 'queue')}"
        + (f", {alone(obstacle)}" if obstacle.only else "")
        for obstacle in obstacles
    )
    return "; ".join(list(texts)[:MOST_NAMED]) or "nothing"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) if isinstance(value, int | str) and value != "" else repr(value)
