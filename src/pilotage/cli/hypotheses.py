"""Changes that are only thought of: typed as words, and shown beside what is."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import BadInput
from .output import Column, show

if TYPE_CHECKING:
    from pilotage.flow.calls.what_if import WhatIf
    from pilotage.model.decision import Choice

WhatIfs = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if",
        metavar="CHANGE",
        help="Decide again with this change: a field of the task, as in ram=2000, or of a queue, as in "
        "QUEUE.status=online; memory=12000 is all that a job may use, in MB. May be given several times.",
    ),
]

MOST_NAMED = 5
"""Queues, and obstacles, that are named at most."""


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """The document of changes, ``{"task": {field: value}, "queues": {queue: {field: value}}}``."""
    changes: dict[str, Any] = {"task": {}, "queues": {}}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            remedy = "give FIELD=VALUE, for example memory=12000 or QUEUE.max_memory=16000"
            raise BadInput(f"{word!r} is not a change; {remedy}")
        queue, dot, field = name.rpartition(".")
        values = changes["queues"].setdefault(queue, {}) if dot else changes["task"]
        if field in values:
            raise BadInput(f"{name} is given twice; keep one")
        values[field] = _value(name, field, text, of_queue=bool(dot))
    return changes


def _value(name: str, field: str, text: str, of_queue: bool) -> Any:
    """Text where the field holds text, and otherwise what YAML makes of it."""
    from pilotage.federation import text as yaml
    from pilotage.federation.faults import BadDocument
    from pilotage.model.documents import json_schema
    from pilotage.model.federation import Queue
    from pilotage.model.work import TaskSpec

    fields = json_schema(Queue if of_queue else TaskSpec)["properties"]
    if fields.get(field, {}).get("type") == "string":
        return text
    try:
        return yaml.parse(text)
    except BadDocument as bad:
        raise BadInput(f"{name}: {bad.faults[0].text}") from bad


def show_side_by_side(found: "WhatIf") -> None:
    """What would change, in two columns."""
    wanted = ", ".join(
        f"{one.field} {_text(one.after)} instead of {_text(one.before)}" for one in found.changes
    )
    typer.echo(f"with {wanted}" if wanted else "without any change")
    kinds = sorted({choice.job_kind for choice in (*found.before, *found.after)})
    rows: list[tuple[str, str, str]] = []
    for kind in kinds:
        before, after = (
            _summary([choice for choice in choices if choice.job_kind == kind])
            for choices in (found.before, found.after)
        )
        of = f" ({kind} jobs)" if len(kinds) > 1 else ""
        rows += [(f"{what}{of}", before[what], after[what]) for what in before]
    show(
        (Column(""), Column("as it is"), Column("with the change")),
        rows,
        "It has no jobs that could be brokered.",
    )
    for word, queues in (("opens", found.opened), ("closes", found.closed)):
        if queues:
            typer.echo(f"{word} {len(queues)} {'queue' if len(queues) == 1 else 'queues'}: {_names(queues)}")


def _summary(choices: "Sequence[Choice]") -> dict[str, str]:
    """What some choices come to, by what it is."""
    fit = {queue for choice in choices for queue in choice.candidates.queues}
    placed: dict[str, int] = {}
    for choice in choices:
        for queue, jobs in choice.placed.items():
            placed[queue] = placed.get(queue, 0) + jobs
    jobs = sum(len(choice.jobs) + choice.left for choice in choices)
    return {
        "queues that fit": f"{len(fit)} of {max((choice.considered for choice in choices), default=0)}",
        "jobs placed": f"{sum(placed.values())} of {jobs}",
        "at": _places(placed) or "nowhere",
        "in the way": _obstacles(choices),
    }


def _places(placed: Mapping[str, int]) -> str:
    return _names([f"{queue} {jobs}" for queue, jobs in sorted(placed.items(), key=lambda item: -item[1])])


def _obstacles(choices: "Iterable[Choice]") -> str:
    from pilotage.explain import choices as explain

    found = [obstacle for choice in choices for obstacle in explain.explain(choice).obstacles]
    told = dict.fromkeys(f"{one.rule} {one.name} at {one.queues}, alone at {one.only}" for one in found)
    return "; ".join(list(told)[:MOST_NAMED]) or "nothing"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) if isinstance(value, int | str) and value != "" else repr(value)
