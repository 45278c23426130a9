"""Decide without changing anything: from a saved world, or for tasks before their submission."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import Json, echo, show_json, show_lines, width
from pilotage.model.values.step_names import BROKER

if TYPE_CHECKING:
    from pilotage.model.documents.world import World
    from pilotage.model.records.work import TaskSpec

app = typer.Typer()


def step_names() -> list[str]:
    """Return the names of all steps from their files: importing the steps would slow down every command."""
    package = find_spec("pilotage.flow.steps")
    places = package.submodule_search_locations if package else None
    return sorted(module.name for module in iter_modules(places))


def _known_step(name: str) -> str:
    names = step_names()
    if name not in names:
        raise typer.BadParameter(f"there is no step {name!r}; there are {', '.join(names)}")
    return name


@app.command(
    epilog="Example: pilotage plan broker --task task.yaml, or from a saved world: "
    "pilotage plan broker --world world.yaml --json"
)
def plan(
    step: Annotated[
        str,
        typer.Argument(
            metavar="STEP", help=f"The step that decides: {', '.join(step_names())}.", callback=_known_step
        ),
    ],
    world: Annotated[
        Path | None, typer.Option(help="A saved world; nothing else is read, nothing is changed.")
    ] = None,
    task: Annotated[
        Path | None,
        typer.Option(
            help="A file of tasks not submitted yet: would they run, where, and if not why. Asks the "
            "server, or a saved world. Only with the step broker."
        ),
    ] = None,
    json_output: Json = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="PILOTAGE_DEBUG", help="Show where a step fails, if it does.")
    ] = False,
) -> None:
    """Decide without changing anything, from a saved world, or for tasks that are not submitted yet.

    The same world gives the same decision, byte for byte. A world edited by hand is checked first, and every
    fault has its line.
    """
    if task is not None:
        if step != BROKER:
            raise BadInput(f"--task goes with the step broker, not with {step}; leave it out")
        _plan_tasks(task, world, json_output, debug)
    elif world is not None:
        _plan_step(step, world, json_output, debug)
    else:
        remedy = "; or ask about tasks: pilotage plan broker --task FILE" if step == BROKER else ""
        raise BadInput(f"give a saved world with --world, made by pilotage world{remedy}")


def _plan_step(step: str, world: Path, json_output: bool, debug: bool) -> None:
    show_decision(step, _world(world), world, json_output, debug)


def show_decision(step: str, saved: "World", world: Path, json_output: bool, debug: bool) -> None:
    """Decide from a world, which was read from the file ``world``, and print the decision."""
    from pilotage.explain import plans
    from pilotage.flow import planning
    from pilotage.model.documents.serialization import canonical_json

    with _errors_in_short(step, world, debug):
        decision = planning.plan(step, saved)
    if json_output:
        typer.echo(canonical_json(decision))
    else:
        idle = [] if decision.of_records else planning.idle_reasons(step, saved)
        show_lines(plans.of_decision(decision, saved, idle, width()))


def _world(path: Path) -> "World":
    """Read a saved world. A federation is read as a world without any task.

    Pseudo-queues get the conditions of their unified queues, which a person may have edited (B2).
    """
    import time

    from pilotage.federation import text
    from pilotage.federation.documents import read
    from pilotage.federation.source_files import SourceFile
    from pilotage.model.documents.world import World
    from pilotage.model.records.federation import Federation
    from pilotage.model.records.unified_queues import conditioned

    source = SourceFile.of(path)
    # Invalid text is read below as a world, which reports its faults.
    with suppress(ValueError):
        document = text.parse(source.content)
        if isinstance(document, dict) and "sites" in document and "federation" not in document:
            echo(f"{path} is a federation: planned on an empty world of it", err=True)
            federation = conditioned(read(Federation, source))
            return World(time=time.time(), seed=0, federation=federation)
    world = read(World, source)
    return replace(world, federation=conditioned(world.federation))


@contextmanager
def _errors_in_short(step: str, world: Path, debug: bool) -> Iterator[None]:
    """Turn the errors of a step into one sentence."""
    try:
        yield
    except Exception as error:
        if debug:
            raise
        reason = f"{type(error).__name__}: {error}"
        raise BadInput(f"{step} cannot decide from {world}: {reason}; --debug shows where") from error


def _plan_tasks(file: Path, world: Path | None, json_output: bool, debug: bool) -> None:
    from pilotage.federation import documents
    from pilotage.federation.source_files import SourceFile

    source = SourceFile.of(file)
    ask = _ask_server if world is None else partial(_ask_world, path=world, debug=debug)
    specs = documents.read_tasks(source, partial(references, ask=ask))
    answer = ask(specs)
    if json_output:
        show_json(answer)
    else:
        for task in answer["tasks"]:
            show_lines(task["lines"])
    if answer["refused"]:
        raise source.refused(faults_of(answer))


def references(
    specs: Sequence["TaskSpec"], ask: Callable[[Sequence["TaskSpec"]], Any] | None = None
) -> list[tuple[int, str, str]]:
    """Return contradictions to the server's federation, or the ones that ``ask`` returns; none without an
    answer."""
    from pilotage.client import ClientError
    from pilotage.federation.faults import BadFile

    try:
        return faults_of((ask or _ask_server)(specs)) if specs else []
    except (ClientError, CommandFailure, BadFile):
        # Report the faults of the file itself first. Further faults show after those are mended.
        return []


def faults_of(answer: Any) -> list[tuple[int, str, str]]:
    """Return the faults of refused tasks: index of the task, field, message."""
    return [
        (task["index"], fault["field"], fault["message"])
        for task in answer["refused"]
        for fault in task["errors"]
    ]


def _ask_server(specs: Any) -> Any:
    from pilotage.model.documents.serialization import to_document

    with connect() as client:
        return client.plan([to_document(spec) for spec in specs], width=width())


def _ask_world(specs: Any, path: Path, debug: bool) -> Any:
    """Return the same from a saved world, where tasks may belong to any VO."""
    from pilotage.adapters.movers.loader import InstalledMovers
    from pilotage.explain.plans import PlannedTask
    from pilotage.flow.calls.data.inputs import Lookup
    from pilotage.flow.calls.work import preview, submit
    from pilotage.model.documents.serialization import to_document

    world = _world(path)
    movers = InstalledMovers(lambda: None)
    submitted, accepted = submit.examined_offline(
        enumerate(specs),
        world.federation,
        Lookup(lambda storage, glob: movers.for_storage(storage).scan(storage, glob)),
        partial(submit.faults_in, ads=world.advertisements),
    )
    with _errors_in_short(BROKER, path, debug):
        plan = preview.preview(world, [(index, submission.spec) for index, submission in accepted], None)
    refusals = [
        {"index": index, "errors": [{"field": field, "message": message} for field, message in faults]}
        for index, faults in (*submitted.refused, *plan.undecided)
    ]
    tasks = [
        to_document(PlannedTask.of(task.index, task.name, task.jobs, task.choices, width()))
        for task in plan.tasks
    ]
    return {"time": plan.time, "seed": plan.seed, "tasks": tasks, "refused": refusals}
