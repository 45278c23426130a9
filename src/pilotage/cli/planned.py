"""A decision made from a saved world, as people read it: what would change, and why."""

from collections.abc import Iterable, Mapping
from typing import Any

import typer

from pilotage.explain import choices as explain
from pilotage.flow import idle_reasons as resting
from pilotage.model.decision import Create, Decision, Forget, Move, Touch
from pilotage.model.work import NewPilot, Requirements
from pilotage.model.world import World

from .output import Column, show

CHANGES = (
    Column("records", number=True),
    Column("kind"),
    Column("ids"),
    Column("change"),
    Column("queue"),
    Column("pilot", number=True),
    Column("cause", essential=False),
)
TASK_QUEUES = (
    Column("queue"),
    Column("jobs", number=True),
    Column("waiting", number=True),
    Column("target", number=True),
    Column("bound", number=True),
    Column("submitted", number=True),
    Column("mean", essential=False, number=True),
    Column("task queue", essential=False),
)
"""The numbers of P3 and P4: pilots that wait, that were drawn, that may wait, and that are submitted."""


def show_decision(decision: Decision, world: World) -> None:
    """Print what the decision changes, how its numbers came about, and each choice explained."""
    queues = {"job": _queues(world.jobs), "pilot": _queues(world.pilots)}
    why = "; ".join(resting.reasons(decision.step, world)) if not decision.changes else ""
    nothing = f"The step {decision.step} changes nothing in this world" + (f": {why}." if why else ".")
    show(CHANGES, [_row(change, queues) for change in decision.changes], nothing)
    if wants := decision.notes.get("task_queues"):
        typer.echo()
        show(TASK_QUEUES, [_want(want) for want in wants], "")
    for choice in decision.choices:
        for line in explain.lines(explain.explain(choice)):
            typer.echo(line)


def _row(change: Move | Create | Touch | Forget, queues: Mapping[str, Mapping[int, str]]) -> tuple[Any, ...]:
    match change:
        case Move():
            went = f"{change.source} to {change.target}"
            return *_moved(change, went, queues), change.changes.get("pilot", ""), change.cause
        case Touch():
            return *_moved(change, f"set {', '.join(change.changes)}", queues), "", ""
        case Create():
            kinds = sorted({type(record).__name__.removeprefix("New").lower() for record in change.records})
            own = _one({record.queue for record in change.records if isinstance(record, NewPilot)})
            return len(change.records), ", ".join(kinds), "", "created", own, "", change.cause
        case Forget():
            return len(change.replicas), "replica", "", "forgotten", "", "", ""


def _moved(change: Move | Touch, what: str, queues: Mapping[str, Mapping[int, str]]) -> tuple[Any, ...]:
    known = queues.get(change.kind, {})
    queue = change.changes.get("queue") or _one({known.get(id_, "") for id_ in change.ids})
    return len(change.ids), change.kind, explain.shortened(change.ids), what, queue


def _want(want: Mapping[str, Any]) -> tuple[Any, ...]:
    wanted = Requirements.from_text(want["requirements"])
    parts = (
        wanted.owner,
        wanted.vo,
        f"{wanted.cores} cores" if wanted.cores != 1 else "1 core",
        f"{wanted.memory:g} MB" if wanted.memory else "",
        f"{wanted.cpu_time:g} s",
    )
    numbers = (want[name] for name in ("jobs", "waiting", "target", "bound", "submitted"))
    return want["queue"], *numbers, f"{want['mean']:.3g}", ", ".join(part for part in parts if part)


def _queues(records: Iterable[Any]) -> dict[int, str]:
    return {record.id: record.queue for record in records}


def _one(names: set[str]) -> str:
    """The queue that all have in common."""
    return names.pop() if len(names) == 1 else ""
