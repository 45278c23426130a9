"""List what failed by day."""

from typing import Annotated

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.terminal.output import Column, Json, echo, one_line, show, show_json
from pilotage.model.values.phrases import day, plural

app = typer.Typer()

Days = Annotated[int, typer.Option(min=1, max=30, help="How many days back.")]

FAILURES = (
    Column("day"),
    Column("attempts", number=True),
    Column("queue"),
    Column("error"),
)


@app.command(epilog="Example: pilotage failures --days 30")
def failures(days: Days = 7, json_output: Json = False) -> None:
    """List failed attempts of your jobs by day, error and queue; an operator sees all.

    Attempts that were tried again count too, each after 10 s at most. Days are in UTC.
    """
    with connect() as client:
        history = client.failure_history(days=days)
    if json_output:
        show_json(history)
        return
    rows = [
        (
            day(group["time"]),
            group["attempts"],
            group["queue"] or "none",
            one_line(group.get("example") or group["error"]) or "no error was reported",
        )
        for group in history["failures"]
    ]
    show(
        FAILURES,
        rows,
        f"No attempt failed in the last {plural(days, 'day')}. New failures show after 10 s at most.",
    )
    if history["left_out"]:
        echo(f"and {plural(history['left_out'], 'attempt')} with further errors", err=True)
