"""Show what jobs used."""

import time
from datetime import UTC
from enum import StrEnum
from typing import Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput
from pilotage.cli.terminal.output import Column, Json, echo, show, show_json
from pilotage.model.values.durations import begin_of
from pilotage.model.values.phrases import core_time, day, percent, plural

app = typer.Typer()


class By(StrEnum):
    """The subject of each row."""

    DAY = "day"
    TASK = "task"
    QUEUE = "queue"


_USE = (
    Column("core time", number=True),
    Column("efficiency", number=True),
    Column("lost", number=True),
    Column("attempts", number=True),
)
_LOSSES = (Column("lost", number=True), Column("part", number=True), Column("why"))


@app.command(epilog="Example: pilotage usage --by task --since 30d")
def usage(
    by: Annotated[By, typer.Option(help="Rows by day, task or queue.")] = By.DAY,
    since: Annotated[
        str, typer.Option(help="The first day: 3d, or 2026-11-30. The server keeps 30 days.")
    ] = "7d",
    mine: Annotated[bool, typer.Option("--mine", help="Only your own, also for an operator.")] = False,
    json_output: Json = False,
) -> None:
    """Show the core hours of your jobs, their efficiency, and the lost ones; an operator sees all.

    Efficiency is CPU time by core time. An attempt counts on the day (UTC) of its end, after 10 s at
    most. Lost are attempts that failed or were cancelled.
    """
    try:
        begin = begin_of(since, time.time(), UTC)
    except ValueError as error:
        raise BadInput(f"--since {since}: {error}") from None
    with connect() as client:
        answer = client.usage(by=str(by), since=max(begin, 1.0), mine=mine)
    if json_output:
        show_json(answer)
        return
    total = answer["total"]
    if not total["attempts"]:
        echo(f"No attempt has ended since {day(answer['since'])}. Those that run count when they end.")
        return
    echo(_sentence(answer))
    rows = [(_name(by, row), *_cells(row)) for row in answer["rows"]]
    show((Column(str(by)), *_USE), rows, "")
    if answer["left_out"]:
        echo(f"and {plural(answer['left_out'], 'more row')}", err=True)
    if answer["lost"]:
        echo("")
        lost = total["lost_seconds"]
        show(_LOSSES, [_loss(loss, lost) for loss in answer["lost"]], "")


def _sentence(answer: Any) -> str:
    total = answer["total"]
    core, lost = total["core_seconds"], total["lost_seconds"]
    efficiency = percent(total["cpu_seconds"], core)
    words = f"{core_time(core)} of core time since {day(answer['since'])}"
    words += f", efficiency {efficiency}" if efficiency else ""
    return (
        f"{words}; lost: {core_time(lost)} ({percent(lost, core)})" if lost else f"{words}; nothing was lost"
    )


def _name(by: By, row: Any) -> str:
    if by is By.DAY:
        return day(row["time"])
    if by is By.QUEUE:
        return str(row["queue"]) or "none"
    return f"{row['task']} {row['name']}".rstrip() if row["task"] else "further tasks"


def _cells(row: Any) -> tuple[object, ...]:
    core, lost = row["core_seconds"], row["lost_seconds"]
    return (
        core_time(core),
        percent(row["cpu_seconds"], core),
        core_time(lost) if lost else "",
        row["attempts"],
    )


def _loss(loss: Any, lost: float) -> tuple[str, str, str]:
    return core_time(loss["lost_seconds"]), percent(loss["lost_seconds"], lost), loss["what"]
