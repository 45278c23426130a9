"""Check a federation, load it into the server, show it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput
from pilotage.cli.places import adding, importing
from pilotage.cli.terminal.output import After, Column, Json, document_text, echo, hint_next, show, show_json
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.client import Record
    from pilotage.federation.source_files import SourceFile

app = typer.Typer(
    help="Check a federation's file, add a cluster to it, load it, show the one in force, import one.",
    no_args_is_help=True,
)
app.command(
    name="import", epilog="Example: pilotage federation import gfactory entries.xml --output federation.yaml"
)(importing.import_federation)

app.command(name="add", epilog="Example: pilotage federation add slurm me@login.example.org")(adding.add)

File = Annotated[Path, typer.Argument(help="A federation's YAML or JSON file.")]
Force = Annotated[bool, typer.Option("--force", help="Put it in force also where it loses jobs or files.")]
HISTORY = (
    Column("version", number=True),
    Column("saved"),
    Column("by"),
    Column("what"),
    Column("file", essential=False),
)


@app.command(epilog="Example: pilotage federation check federation.yaml")
def check(file: File, json_output: Json = False) -> None:
    """Check a file without a server, and print every fault with its line.

    Adapters that this machine lacks, and causes that would keep jobs waiting, go to standard error. They are
    no faults.
    """
    from dataclasses import asdict

    from pilotage.federation.documents import read
    from pilotage.federation.faults import BadFile, field_name
    from pilotage.flow.calls.administration import acceptance
    from pilotage.model.records.federation import Federation

    try:
        federation = read(Federation, file, acceptance.faults)
    except BadFile as bad:
        if not json_output:
            raise
        show_json({"valid": False, "faults": [asdict(fault) for fault in bad.faults]})
        raise typer.Exit(2) from None
    for note in acceptance.notes(federation):
        echo(f"{field_name(note.path)}: {note.text}", err=True)
    if json_output:
        show_json({"valid": True, "faults": []})
    else:
        parts = ("sites", "storages", "queues", "links", "shares")
        contents = ", ".join(plural(len(getattr(federation, part)), part[:-1]) for part in parts)
        echo(f"{file} is sound: {federation.name} with {contents}")


@app.command(epilog="Example: pilotage federation load federation.yaml --dry-run")
def load(
    file: File,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change, and what would follow.")
    ] = False,
    force: Force = False,
    expect: Annotated[
        int | None,
        typer.Option(metavar="VERSION", help="Refuse if another version is in force than this one."),
    ] = None,
    because: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the history.")] = "",
    json_output: Json = False,
) -> None:
    """Replace the server's federation, including constants, without a restart.

    The server refuses changes that would lose running jobs or known files, and names one that would not.
    """
    from pilotage.federation import documents
    from pilotage.federation.source_files import SourceFile
    from pilotage.model.documents.serialization import to_document
    from pilotage.model.records.federation import Federation

    source = SourceFile.of(file)
    federation = documents.read(Federation, source)
    options = {"dry_run": dry_run, "force": force, "expected": expect, "note": because}
    answer = _loaded(to_document(federation), source, file=str(file.resolve()), **options)
    if json_output:
        show_json(answer)
        return
    _show_changes(answer, dry_run, f"version {answer['version']} of {federation.name} is in force")


def _show_changes(answer: Mapping[str, Any], dry_run: bool, done: str) -> None:
    """Print the changes and their effects, ``done`` or planned."""
    for line in (*answer.get("changes", ()), *answer.get("effects", ())):
        echo(line)
    if not dry_run:
        echo(done)
    elif answer["losses"]:
        echo("it would be refused without --force: the losses come first above")
    elif not answer["changes"]:
        echo("nothing would change")


def _loaded(document: Any, source: "SourceFile", **options: Any) -> "Record":
    """Return the server's answer. Raises ``BadInput``, or the file's faults with their lines."""
    from pilotage.client import Conflict, Refused

    try:
        with connect() as client:
            return client.load_federation(document, **options)
    except Conflict as conflict:
        raise BadInput(str(conflict).replace("`force` does", "--force does")) from conflict
    except Refused as refused:
        if not refused.faults:
            raise
        raise source.refused((None, fault.field, fault.message) for fault in refused.faults) from refused


@app.command(name="show", epilog="Example: pilotage federation show > federation.yaml")
def show_federation(json_output: Json = False) -> None:
    """Print the federation in force as YAML."""
    with connect() as client:
        document = client.federation().to_dict()
    if json_output:
        show_json(document)
    else:
        typer.echo(document_text(document), nl=False)


@app.command(epilog="Example: pilotage federation history")
def history(
    limit: Annotated[int, typer.Option(min=1, max=100, help="Newest versions shown.")] = 20,
    after: After = "",
    json_output: Json = False,
) -> None:
    """Show who changed the federation, when, why and what: loads, drains, closures. For operators."""
    from pilotage.model.values.phrases import moment

    with connect() as client:
        page = client.federation_history(limit=limit, after=after or None)
    if json_output:
        show_json(page)
        return
    rows = [
        (
            version["version"],
            moment(version["time"]),
            version["actor"],
            "; ".join(text.strip() for text in (version["note"], *version["changes"]) if text),
            version["file"],
        )
        for version in page
    ]
    show(HISTORY, rows, "No federation was loaded yet: pilotage federation load FILE")
    hint_next(page, "version")


@app.command(epilog="Example: pilotage federation rollback 3 --dry-run")
def rollback(
    version: Annotated[int, typer.Argument(min=1, help="A version that `federation history` shows.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    force: Force = False,
    json_output: Json = False,
) -> None:
    """Put an earlier version of the federation in force again. Drains and closures stay as they are.

    The file on your disk stays as it is: it is loaded again only once it has changed.
    """
    from pilotage.client import Conflict

    try:
        with connect() as client:
            answer = client.roll_back_federation(version, dry_run=dry_run, force=force)
    except Conflict as conflict:
        raise BadInput(str(conflict).replace("`force` does", "--force does")) from conflict
    if json_output:
        show_json(answer)
        return
    done = f"version {answer['version']} is in force: what version {version} declared"
    if not answer["changes"]:
        done = f"nothing changed: {done}"
    _show_changes(answer, dry_run, done)
