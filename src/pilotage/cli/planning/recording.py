"""Record what a server's jobs did as a scenario."""

import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import Json, console, document_text, echo, show_json
from pilotage.model.values.durations import DAY
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.client import Client
    from pilotage.model.records.federation import Federation
    from pilotage.simulation.recording import RecordedTask
    from pilotage.simulation.scenario import Scenario

app = typer.Typer()

T = TypeVar("T")


MOST_OF_A_DAY = 10_000
"""Most tasks that are read for one day, the newest of the server."""

PAGE = 1000
"""Most tasks in one request, and most jobs of a task that describe its work."""


@app.command(
    epilog="Example: pilotage record day.yaml --hours 24\n\n"
    "Then: pilotage federation show > federation.yaml\n\n"
    "Then: pilotage simulate day.yaml --policy pilotage --policy early"
)
def record(
    scenario: Annotated[Path, typer.Argument(help="The file to write, JSON where it ends in .json.")],
    hours: Annotated[float, typer.Option(min=0.1, max=8760, help="How far back.")] = 24,
    limit: Annotated[
        int, typer.Option("--most", min=1, max=10_000, help="The most tasks, the newest.")
    ] = 1000,
    federation: Annotated[
        Path, typer.Option(help="The federation's file that the scenario names, relative to it.")
    ] = Path("federation.yaml"),
    json_output: Json = False,
) -> None:
    """Write the tasks of the last hours as a scenario: when they came, and how much work their jobs did.

    The scenario holds no commands, environments or payload files. Tasks without a successful job are left
    out.
    """
    from pilotage.simulation.recording import document_of

    begin = time.time() - hours * 3600
    recording, declared, read = _recorded(scenario.stem, str(federation), (begin, inf), limit)
    if not recording.tasks:
        raise CommandFailure(f"no job of the {plural(read, 'task')} of the last {hours:g} h has ended well")
    _write(document_of(recording), scenario)
    left_out = read - len(recording.tasks)
    if json_output:
        show_json({"output": str(scenario), "tasks": len(recording.tasks), "left_out": left_out})
    else:
        echo(
            f"{scenario} holds {plural(len(recording.tasks), 'task')}; {left_out} without a result left out",
            err=True,
        )
        silent_sites = {queue.site for queue in declared.queues} - {*recording.sites}
        waits = f"pilots wait as they did at {plural(len(recording.sites), 'site')}"
        median = f"{recording.default_site.wait:g} s (median)"
        echo(
            f"{waits}, {median} at {len(silent_sites)} where none started: add default_site to change it",
            err=True,
        )


def write_day(day: str, folder: Path) -> Path:
    """Write the work of a day, and the federation in force, as files of a scenario. Return its path.

    The day is ``yesterday``, ``today`` or ``2026-11-26``, in UTC. Raises ``BadInput``, and
    ``CommandFailure`` if no job of its tasks ended well.
    """
    from pilotage.model.documents.serialization import to_document
    from pilotage.simulation.recording import document_of

    begin = _beginning(day)
    recording, declared, read = _recorded(day, "federation.yaml", (begin, begin + DAY), MOST_OF_A_DAY)
    if not recording.tasks:
        raise CommandFailure(f"no job of the {plural(read, 'task')} of {day} has ended well")
    _write(to_document(declared), folder / "federation.yaml")
    _write(document_of(recording), folder / "scenario.json")
    return folder / "scenario.json"


def _beginning(day: str) -> float:
    """Return when a day begins, in s since 1970 UTC. Raises ``BadInput``."""
    back = {"today": 0, "yesterday": 1}
    if day in back:
        return time.time() // DAY * DAY - back[day] * DAY
    try:
        return datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise BadInput(f"--day {day}: give yesterday, today, or a date such as 2026-11-26") from None


def _recorded(
    name: str, federation: str, span: tuple[float, float], limit: int
) -> "tuple[Scenario, Federation, int]":
    """Return the scenario of the tasks of a span of time, the federation, and how many tasks were read."""
    from pilotage.model.records.federation import Federation
    from pilotage.simulation.recording import recorded

    begin, end = span
    with connect() as client, console(stderr=True).status("reading tasks"):
        declared = _understood(Federation, client.federation().to_dict())
        tasks = [task for task in _tasks(client, begin, limit) if task.created < end]
        waits = client.pilot_waits(after=int(begin), limit=PAGE)["waits"]
    return recorded(name, federation, declared, tasks, begin, waits), declared, len(tasks)


def _understood(kind: type[T], document: Any) -> T:
    """Return a record of the server's. Raises ``BadAnswer`` at what this version cannot read."""
    from pydantic import ValidationError

    from pilotage.client import BadAnswer
    from pilotage.model.documents.serialization import from_document

    try:
        return from_document(kind, document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise BadAnswer(f"the server's {kind.__name__} cannot be read: {place}: {first['msg']}") from error


def _write(document: dict[str, Any], file: Path) -> None:
    """Write a document, as JSON if the file's name ends so. Raises ``BadInput``."""
    as_json = file.suffix == ".json"
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n" if as_json else document_text(document)
    try:
        file.write_text(text)
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}") from error


def _tasks(client: "Client", begin: float, limit: int) -> "Iterator[RecordedTask]":
    """Yield recent tasks, newest first, with their first successful jobs."""
    from pilotage.model.records.work import TaskSpec
    from pilotage.simulation.recording import EndedJob, RecordedTask

    for view in _views(client, begin, limit):
        spec = client.task(view["id"])["spec"]
        jobs = client.jobs(view["id"], state="finished", limit=PAGE)
        yield RecordedTask(
            id=view["id"],
            spec=_understood(TaskSpec, spec),
            owner=view["owner"],
            vo=view["vo"],
            created=view["created"],
            jobs=[
                EndedJob(queue=job["queue"], wall_seconds=job["wall_seconds"])
                for job in jobs
                # A merge job gathers outputs and is not part of the recorded work.
                if job["wall_seconds"] and job["kind"] != "merge"
            ],
        )


def _views(client: "Client", begin: float, limit: int) -> Iterator[Mapping[str, Any]]:
    for view in islice(client.each(client.tasks, limit=min(limit, PAGE)), limit):
        if view["created"] < begin:
            return
        yield view
