"""Draw a scenario of the simulator from any federation."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.errors import BadInput
from pilotage.cli.terminal.output import Json, document_text, echo, show_json
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.simulation.drawing import Drawn

app = typer.Typer()

MOST_QUEUES = 500
"""Most queues in a drawn scenario: each pair of their sites has a link."""


@app.command(
    epilog="Example: pilotage draw-scenario federation.yaml --queues 30 --seed 1 --output drawn\n\n"
    "Then: pilotage simulate drawn/scenario.yaml --policy early --policy elastic --seeds 5"
)
def draw_scenario(
    federation: Annotated[Path, typer.Argument(help="A federation's file, such as an imported one.")],
    output: Annotated[
        Path, typer.Option(help="The folder for scenario.yaml and federation.yaml, made if need be.")
    ],
    queues: Annotated[int, typer.Option(min=1, max=MOST_QUEUES, help="How many queues to draw.")] = 30,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Draws others where it differs.")] = 1,
    json_output: Json = False,
) -> None:
    """Draw a scenario from a federation: some of its queues, with random conditions that nobody tuned.

    The command draws numbers of slots, batch waits, busy periods, links, file sizes and replicas. Everything
    else comes from the file. The same file, number and seed give the same scenario. Existing target files are
    overwritten.
    """
    from pilotage.federation.documents import read
    from pilotage.model.records.federation import Federation
    from pilotage.simulation.drawing import TooFewQueues, drawn

    declared = read(Federation, federation)
    try:
        found = drawn(declared, queues, seed)
    except TooFewQueues as error:
        raise BadInput(f"{federation}: {error}") from error
    how = (
        f"# Drawn of {declared.name} by: pilotage draw-scenario FEDERATION --queues {queues} --seed {seed}\n"
    )
    _write(found, output, how)
    _tell(found, output, json_output)


def _write(found: "Drawn", folder: Path, how: str) -> None:
    from pilotage.federation.documents import write
    from pilotage.simulation.drawing import FEDERATION_FILE, SCENARIO_FILE, document_of

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FEDERATION_FILE).write_text(how + write(found.federation), encoding="utf-8")
        text = how + document_text(document_of(found.scenario))
        (folder / SCENARIO_FILE).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{error.filename or folder} cannot be written: {error.strerror}") from error


def _tell(found: "Drawn", folder: Path, json_output: bool) -> None:
    from pilotage.simulation.drawing import SCENARIO_FILE, jobs_expected, slots_of

    scenario = folder / SCENARIO_FILE
    slots = sum(map(slots_of, found.federation.queues))
    numbers: dict[str, Any] = {
        "output": str(scenario),
        "queues": len(found.federation.queues),
        "sites": len(found.federation.sites),
        "slots": slots,
        "jobs": jobs_expected(found.scenario),
        "fitting": found.fitting,
        "left_out": dict(found.left_out),
    }
    if json_output:
        show_json(numbers)
        return
    drawn = f"{plural(numbers['queues'], 'queue')} of {found.fitting} that take the work"
    where = f"{plural(numbers['sites'], 'site')}, {plural(slots, 'slot')}"
    echo(f"{scenario} has {drawn}: {where}, about {plural(numbers['jobs'], 'job')}")
    if found.left_out:
        told = ", ".join(f"{count} by {check}" for check, count in found.left_out.items())
        echo(f"not drawn from: {told}", err=True)
