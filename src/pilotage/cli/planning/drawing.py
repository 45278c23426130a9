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
    """Draw a scenario from a federation: some of its queues, under random conditions.

    The command draws numbers of slots, batch waits, busy periods, links, file sizes and replicas. Everything
    else comes from the file. The same file, number and seed give the same scenario. Existing target files are
    overwritten.
    """
    from pilotage.federation.documents import read
    from pilotage.model.records.federation import Federation
    from pilotage.simulation.drawing import TooFewQueues, drawn

    declared = read(Federation, federation)
    try:
        drawing = drawn(declared, queues, seed)
    except TooFewQueues as error:
        raise BadInput(f"{federation}: {error}") from error
    header = (
        f"# Drawn of {declared.name} by: pilotage draw-scenario FEDERATION --queues {queues} --seed {seed}\n"
    )
    _write(drawing, output, header)
    _show(drawing, output, json_output)


def _write(drawing: "Drawn", folder: Path, header: str) -> None:
    from pilotage.federation.documents import write
    from pilotage.simulation.drawing import FEDERATION_FILE, SCENARIO_FILE, document_of

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FEDERATION_FILE).write_text(header + write(drawing.federation), encoding="utf-8")
        text = header + document_text(document_of(drawing.scenario))
        (folder / SCENARIO_FILE).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{error.filename or folder} cannot be written: {error.strerror}") from error


def _show(drawing: "Drawn", folder: Path, json_output: bool) -> None:
    from pilotage.simulation.drawing import SCENARIO_FILE, jobs_expected, slots_of

    scenario = folder / SCENARIO_FILE
    slots = sum(map(slots_of, drawing.federation.queues))
    numbers: dict[str, Any] = {
        "output": str(scenario),
        "queues": len(drawing.federation.queues),
        "sites": len(drawing.federation.sites),
        "slots": slots,
        "jobs": jobs_expected(drawing.scenario),
        "fitting": drawing.fitting,
        "left_out": dict(drawing.left_out),
    }
    if json_output:
        show_json(numbers)
        return
    drawn = f"{plural(numbers['queues'], 'queue')} of {drawing.fitting} that take the work"
    size = f"{plural(numbers['sites'], 'site')}, {plural(slots, 'slot')}"
    echo(f"{scenario} has {drawn}: {size}, about {plural(numbers['jobs'], 'job')}")
    if drawing.left_out:
        reasons = ", ".join(f"{count} by {check}" for check, count in drawing.left_out.items())
        echo(f"not drawn from: {reasons}", err=True)
