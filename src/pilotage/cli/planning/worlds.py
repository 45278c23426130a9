"""Worlds, and the schemas of documents."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput
from pilotage.cli.terminal.output import Json, console, document_text, echo, show_json
from pilotage.model.values.phrases import plural

app = typer.Typer()


class SchemaName(StrEnum):
    """Documents that have a published schema."""

    WORLD = "world"
    FEDERATION = "federation"
    TASK = "task"
    DECISION = "decision"
    SCENARIO = "scenario"


@app.command(epilog="Example: pilotage world --output world.yaml")
def world(
    output: Annotated[
        Path | None, typer.Option(help="Write to this file, JSON where it ends in .json.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Save the world: everything that decisions read, as YAML."""
    import json

    with connect() as client, console(stderr=True).status("reading the world"):
        document = client.world().to_dict()
    as_json = json_output or (output is not None and output.suffix == ".json")
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n" if as_json else document_text(document)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise BadInput(f"{output} cannot be written: {error.strerror}") from error
    if json_output:
        show_json({"output": str(output), "time": document["time"], "seed": document["seed"]})
    else:
        echo(f"{output} holds the world of now: {plural(len(document['jobs']), 'job')}", err=True)


@app.command(epilog="Example: pilotage schema federation > federation.schema.json")
def schema(
    document: Annotated[SchemaName, typer.Argument(help="The kind of document.")],
    json_output: Json = False,  # noqa: ARG001 -- a schema is JSON with it and without
) -> None:
    """Print the JSON Schema of a document, which editors can use to check files."""
    from pilotage.model.documents.decision import Decision
    from pilotage.model.documents.serialization import schema_text
    from pilotage.model.documents.world import World
    from pilotage.model.records.federation import Federation
    from pilotage.model.records.work import TaskSpec
    from pilotage.simulation.scenario import Scenario

    kinds: dict[SchemaName, type] = {
        SchemaName.WORLD: World,
        SchemaName.FEDERATION: Federation,
        SchemaName.TASK: TaskSpec,
        SchemaName.DECISION: Decision,
        SchemaName.SCENARIO: Scenario,
    }
    typer.echo(schema_text(kinds[document]), nl=False)
