"""Show what jobs used."""

import csv
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput
from pilotage.cli.terminal.output import Column, Json, echo, show, show_json
from pilotage.cli.work.attempt_files import export_files, show_attempts
from pilotage.cli.work.attempt_formats import FORMATS
from pilotage.model.records.use import DIMENSIONS
from pilotage.model.values.durations import DAY, HOUR, begin_of
from pilotage.model.values.phrases import core_time, day, percent, plural, size

app = typer.Typer(invoke_without_command=True)

MOST_ROWS = 10_000
"""Most rows of a document; a table has 500."""

_LOSSES = (Column("lost", number=True), Column("part", number=True), Column("why"))
_SUMS = (
    *("attempts", "core_seconds", "hs23_seconds", "gpu_seconds", "cpu_seconds", "lost_seconds"),
    *("asked_memory", "used_memory", "saved_memory", "peak_memory", "read_bytes", "written_bytes"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@app.callback(epilog="Example: pilotage usage --by task,cause --since 30d")
def usage(
    context: typer.Context,
    by: Annotated[
        str, typer.Option(help=f"Rows by one or more, with commas: {', '.join(DIMENSIONS)}.")
    ] = "day",
    since: Annotated[
        str, typer.Option(help="The first day: 3d, or 2026-11-30. The server keeps 400 days.")
    ] = "7d",
    until: Annotated[str, typer.Option(help="The last day; today, if you leave it out.")] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Only your own, also for an operator.")] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print the rows as CSV, in s, bytes and MB s.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Show the core hours of your jobs, their efficiency, and the lost ones; an operator sees all.

    Efficiency is CPU time by core time. An attempt counts on the day (UTC) of its end, after 10 s at
    most. Lost are attempts that failed or were cancelled. Time in which pilots had no attempt does not
    count.
    """
    if context.invoked_subcommand:
        return
    if as_csv and json_output:
        raise BadInput("--csv or --json, not both")
    dimensions, (begin, end) = _dimensions(by), _span_of(since, until)
    limit = MOST_ROWS if as_csv or json_output else None
    with connect() as client:
        answer = client.usage(by=dimensions, since=begin, until=end, mine=mine, limit=limit)
    if json_output:
        show_json(answer)
        return
    if as_csv:
        _show_csv(dimensions, answer["rows"])
    else:
        _show(dimensions, answer)
    if answer["left_out"]:
        echo(f"and {plural(answer['left_out'], 'more row')}", err=True)


def _dimensions(by: str) -> list[str]:
    words = [word.strip() for word in by.split(",")]
    if unknown := [word for word in words if word not in DIMENSIONS]:
        raise BadInput(f"--by {unknown[0] or 'nothing'}: choose from {', '.join(DIMENSIONS)}")
    return [dimension for dimension in DIMENSIONS if dimension in words]


def _span_of(since: str, until: str) -> tuple[float | None, float | None]:
    """Return two moments in s since 1970; None for an empty one. Raises ``BadInput``."""
    begin = max(_moment("--since", since), 1.0) if since else None
    end = _moment("--until", until) if until else None
    if begin is not None and end is not None and begin > end:
        raise BadInput(f"--since {since} is after --until {until}")
    return begin, end


def _moment(option: str, text: str) -> float:
    try:
        return begin_of(text, time.time(), UTC)
    except ValueError as error:
        raise BadInput(f"{option} {text}: {error}") from None


def _show(dimensions: Sequence[str], answer: Any) -> None:
    total = answer["total"]
    if not total["attempts"]:
        echo(f"No attempt has ended {_span(answer)}. Those that run count when they end.")
        return
    echo(_sentence(answer))
    if total["asked_memory"]:
        echo(_memory(total))
    columns = [column for column in _COLUMNS if column.is_shown(total)]
    show(
        [
            *(Column(name) for name in dimensions),
            *(Column(one.title, one.essential, True) for one in columns),
        ],
        [
            (*(_name(name, row) for name in dimensions), *(column.cell(row) for column in columns))
            for row in answer["rows"]
        ],
        "",
    )
    if answer["lost"]:
        echo("")
        lost = total["lost_seconds"]
        show(_LOSSES, [_loss(loss, lost) for loss in answer["lost"]], "")


def _span(answer: Any) -> str:
    first, last = day(answer["since"]), day(answer["until"] - DAY)
    return f"since {first}" if last >= day(time.time()) else f"from {first} to {last}"


def _sentence(answer: Any) -> str:
    total = answer["total"]
    core, lost = total["core_seconds"], total["lost_seconds"]
    efficiency = percent(total["cpu_seconds"], core)
    words = f"{core_time(core)} of core time {_span(answer)}"
    words += f", efficiency {efficiency}" if efficiency else ""
    return (
        f"{words}; lost: {core_time(lost)} ({percent(lost, core)})" if lost else f"{words}; nothing was lost"
    )


def _memory(total: Any) -> str:
    """Return how much memory attempts asked for, the used part, and what better requests would save."""
    asked, saved = total["asked_memory"], total["saved_memory"]
    words = f"memory: {_gigabytes(asked)} asked, {percent(total['used_memory'], asked)} of it used"
    return f"{words}; better requests would save {_gigabytes(saved)}" if saved else words


def _gigabytes(seconds: float) -> str:
    """Return memory times time, from MB s."""
    return f"{seconds / 1000 / HOUR:,.1f} GB h"


class _UseColumn:
    """A column of numbers. One that is not ``always`` there needs a value in the total."""

    def __init__(
        self, title: str, of: str, cell: Callable[[Any], object], always: bool = False, essential: bool = True
    ) -> None:
        self.title, self.cell, self.essential = title, cell, essential
        self._of, self._always = of, always

    def is_shown(self, total: Mapping[str, Any]) -> bool:
        """Return whether the table has it."""
        return self._always or bool(total[self._of])


_COLUMNS = (
    _UseColumn("core time", "core_seconds", lambda row: core_time(row["core_seconds"]), always=True),
    _UseColumn("HS23 h", "hs23_seconds", lambda row: f"{row['hs23_seconds'] / HOUR:,.1f}", essential=False),
    _UseColumn("GPU time", "gpu_seconds", lambda row: core_time(row["gpu_seconds"])),
    _UseColumn(
        "efficiency",
        "core_seconds",
        lambda row: percent(row["cpu_seconds"], row["core_seconds"]),
        always=True,
    ),
    _UseColumn(
        "lost",
        "lost_seconds",
        lambda row: core_time(row["lost_seconds"]) if row["lost_seconds"] else "",
        always=True,
    ),
    _UseColumn(
        "memory used",
        "asked_memory",
        lambda row: percent(row["used_memory"], row["asked_memory"]),
        essential=False,
    ),
    _UseColumn("most", "asked_memory", lambda row: f"{row['peak_memory']:,.0f} MB", essential=False),
    _UseColumn("read", "read_bytes", lambda row: size(row["read_bytes"]), essential=False),
    _UseColumn("written", "written_bytes", lambda row: size(row["written_bytes"]), essential=False),
    _UseColumn("attempts", "attempts", lambda row: row["attempts"], always=True),
)


def _name(dimension: str, row: Any) -> str:
    """Return a row's value of a dimension."""
    match dimension:
        case "day":
            return day(row["time"])
        case "person" if row["vo"]:
            return f"{row['person']} ({row['vo']})"
        case "task":
            return f"{row['task']} {row['name']}".rstrip() if row["task"] else "further tasks"
        case "cause":
            return str(row["cause"]) or "ended well"
    return str(row[dimension]) or "none"


def _loss(loss: Any, lost: float) -> tuple[str, str, str]:
    return core_time(loss["lost_seconds"]), percent(loss["lost_seconds"], lost), loss["what"]


def _show_csv(dimensions: Sequence[str], rows: Sequence[Any]) -> None:
    """Print rows with plain numbers. A name that a spreadsheet would take for a formula begins with '."""
    more = {"person": ("person", "vo"), "task": ("task", "name")}
    names = list(dict.fromkeys(part for name in dimensions for part in more.get(name, (name,))))
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow([*names, *_SUMS])
    for row in rows:
        cells = (day(row["time"]) if name == "day" else row[name] for name in names)
        out.writerow([*map(_harmless, cells), *(row[name] for name in _SUMS)])


def _harmless(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


@app.command(epilog="Example: pilotage usage export --format apel --to outgoing --checkpoint apel.json")
def export(
    format_: Annotated[str, typer.Option("--format", help=f"One of: {', '.join(FORMATS)}.")] = "jsonl",
    since: Annotated[str, typer.Option(help="The first moment: 3d, or 2026-11-30.")] = "",
    until: Annotated[str, typer.Option(help="The first moment after them.")] = "",
    folder: Annotated[Path | None, typer.Option("--to", help="A folder for files of 1000 attempts.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A file that keeps which attempt is next. It needs --to.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Write ended attempts for accounting elsewhere: as JSON lines, for APEL or for AUDITOR. For operators.

    With a checkpoint each attempt is in one file, also if a run is interrupted: run it again before you
    take files away. The server keeps attempts for 30 days.
    """
    if format_ not in FORMATS:
        raise BadInput(f"--format {format_}: choose from {', '.join(FORMATS)}")
    if (folder is None) != (checkpoint is None):
        raise BadInput("--to and --checkpoint belong together")
    if json_output and folder is None:
        raise BadInput("--json needs --to: attempts are printed in their --format")
    begin, end = _span_of(since, until)
    with connect() as client:
        instance = str(client.federation()["name"])

        def read(after: int) -> Any:
            return client.ended_attempts(after=after, since=begin, until=end)

        def text_of(attempts: Sequence[Any]) -> str:
            return FORMATS[format_](attempts, instance)

        if folder is None or checkpoint is None:
            show_attempts(read, text_of)
            return
        attempts, files = export_files(folder, format_, checkpoint, read, text_of)
    if json_output:
        show_json({"attempts": attempts, "files": files})
        return
    echo(f"{plural(attempts, 'attempt')} in {plural(files, 'new file')}", err=True)
