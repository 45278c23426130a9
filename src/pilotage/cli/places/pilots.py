"""Pilots: the jobs that Pilotage itself keeps in the sites' queues."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.places.breakers import until
from pilotage.cli.terminal.output import After, Column, Json, Limit, ago, echo, hint_next, show, show_json

app = typer.Typer()

PILOTS = (
    Column("pilot", number=True),
    Column("queue"),
    Column("state"),
    Column("kind", essential=False),
    Column("credential", essential=False),
    Column("reference", essential=False),
    Column("jobs", number=True),
    Column("last heard", number=True),
    Column("containment", essential=False),
    Column("agent", essential=False),
    Column("age", essential=False, number=True),
    Column("error", essential=False),
)


@app.command(epilog="Example: pilotage pilots --state running --queue oslo-long")
def pilots(
    state: Annotated[str | None, typer.Option(help="Only pilots in this state.")] = None,
    queue: Annotated[str | None, typer.Option(help="Only pilots of this queue.")] = None,
    empty: Annotated[
        bool,
        typer.Option("--empty", help="Only pilots that ended without work, or do not fit their task queue."),
    ] = False,
    limit: Limit = 100,
    after: After = "",
    json_output: Json = False,
) -> None:
    """Show pilots, newest first."""
    with connect() as client:
        page = client.pilots(state=state, queue=queue, empty=empty, limit=limit, after=after or None)
    if json_output:
        show_json(page)
        return
    rows = [_row(pilot) for pilot in page]
    nothing = "No pilot matches." if state or queue or empty else "There are no pilots."
    show(PILOTS, rows, nothing)
    hint_next(page, "pilot")
    for problem in page.document.get("problems", ()):
        echo(f"no pilots at {problem}")
    for breaker in page.document["breakers"]:
        echo(f"{breaker['what']}: circuit breaker {breaker['state']}, {until(breaker)}: {breaker['reason']}")


def _row(pilot: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        pilot["id"],
        pilot["queue"],
        pilot["state"],
        pilot["kind"],
        pilot.get("credential", ""),
        pilot["reference"],
        pilot["matched"],
        ago(pilot["heartbeat"]),
        pilot["containment"],
        pilot.get("agent_version", ""),
        ago(pilot["created"]),
        pilot["error"] or (pilot["lacks"] and f"its node lacks {pilot['lacks']}") or _waits(pilot),
    )


def _waits(pilot: Mapping[str, Any]) -> str:
    return f"waits: {pilot['waits']}" if pilot["state"] == "submitted" and pilot.get("waits") else ""
