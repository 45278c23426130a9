"""Make federations from other systems' documents, and report each guess, change and omission."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.errors import BadInput
from pilotage.cli.terminal.output import Column, Json, echo, show, show_json

if TYPE_CHECKING:
    from pilotage.federation.importers import Imported

MOST_REFUSALS = 50


class ImporterKind(StrEnum):
    """Systems with documents that can be read."""

    GFACTORY = "gfactory"
    CRIC = "cric"


def import_federation(
    kind: Annotated[
        ImporterKind,
        typer.Argument(help="gfactory: glideinWMS factory XML; cric: queues, sites, storages, closeness."),
    ],
    files: Annotated[list[Path], typer.Argument(help="The documents, which make one federation.")],
    output: Annotated[
        Path | None, typer.Option(help="Write the federation to this file; else to standard output.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Convert another system's documents to a federation in YAML, and report guesses and losses.

    Entries that cannot be accepted are refused one by one, with their line and what would be right. If none
    remains, the exit code is 2. --json prints every note, and the federation if there is no --output.
    """
    from pilotage.federation.documents import write
    from pilotage.federation.importers import IMPORTERS, ImportSource
    from pilotage.federation.source_files import read_text

    sources = [ImportSource(str(file), read_text(file)) for file in files]
    imported = IMPORTERS[kind.value](sources, files[0].stem)
    if imported.federation is not None and output is not None:
        try:
            output.write_text(write(imported.federation), encoding="utf-8")
        except OSError as error:
            raise BadInput(f"{output} cannot be written: {error.strerror}") from error
    if json_output:
        show_json(_document(imported, output))
    else:
        if imported.federation is not None and output is None:
            typer.echo(write(imported.federation), nl=False)
        _show(imported, output)
    if imported.federation is None:
        raise typer.Exit(2)


def _document(imported: "Imported", output: Path | None) -> dict[str, object]:
    from dataclasses import asdict

    from pilotage.model.documents.serialization import to_document

    federation = imported.federation
    return {
        "entries": imported.entries,
        "queues": len(federation.queues) if federation else 0,
        "refused": len(imported.refusals),
        "output": str(output) if federation and output else None,
        "federation": to_document(federation) if federation and output is None else None,
        "notes": [asdict(note) for note in imported.notes],
    }


def _show(imported: "Imported", output: Path | None) -> None:
    """Print the refusals one by one, and the other notes by action and field, on standard error."""
    refusals = imported.refusals
    for refusal in refusals[:MOST_REFUSALS]:
        echo(f"refused: {refusal}", err=True)
    if len(refusals) > MOST_REFUSALS:
        echo(f"and {len(refusals) - MOST_REFUSALS} more; --json shows them", err=True)
    columns = (
        Column("done"),
        Column("field"),
        Column("times", number=True),
        Column("for example"),
    )
    summary = imported.summary()
    if summary:
        show(columns, summary, "", stderr=True)
    house = imported.federation
    if house is None:
        entries = "1 entry" if imported.entries == 1 else f"{imported.entries} entries"
        echo(f"nothing remains of {entries}", err=True)
        return
    parts = ("queues", "sites", "storages", "links")
    contents = ", ".join(f"{len(getattr(house, part))} {part}" for part in parts)
    target = str(output) if output else "the federation"
    read = f"of {imported.entries} entries, {len(refusals)} refused"
    echo(f"{target} has {contents}, {read}; the notes above are whole with --json", err=True)
