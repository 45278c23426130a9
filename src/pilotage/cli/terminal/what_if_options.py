"""Hypothetical changes, typed as words."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from pilotage.cli.errors import BadInput

WhatIfs = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if",
        metavar="CHANGE",
        help="Decide again with this change: a field of the task, as in ram=2000, or of a queue, as in "
        "QUEUE.status=online; memory=12000 is all that a job may use, in MB. May be given several times.",
    ),
]


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """Return the document of changes, ``{"task": {field: value}, "queues": {queue: {field: value}}}``."""
    changes: dict[str, Any] = {"task": {}, "queues": {}}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            remedy = "give FIELD=VALUE, for example memory=12000 or QUEUE.max_memory=16000"
            raise BadInput(f"{word!r} is not a change; {remedy}")
        queue, dot, field = name.rpartition(".")
        values = changes["queues"].setdefault(queue, {}) if dot else changes["task"]
        if field in values:
            raise BadInput(f"{name} appears twice; keep one")
        values[field] = _value(name, field, text, of_queue=bool(dot))
    return changes


def _value(name: str, field: str, text: str, of_queue: bool) -> Any:
    """Return text if the field holds text, and otherwise the YAML value of it."""
    from pilotage.federation import text as yaml
    from pilotage.federation.faults import BadDocument
    from pilotage.model.documents.serialization import json_schema
    from pilotage.model.records.federation import Queue
    from pilotage.model.records.work import TaskSpec

    fields = json_schema(Queue if of_queue else TaskSpec)["properties"]
    # YAML would turn the name 1e3 into a number and true into a truth.
    if fields.get(field, {}).get("type") == "string":
        return text
    try:
        return yaml.parse(text)
    except BadDocument as bad:
        raise BadInput(f"{name}: {bad.faults[0].text}") from bad
