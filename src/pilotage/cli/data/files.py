"""The catalogue: files by scope and name, datasets, and their storages."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.data import datasets, registering, uploading
from pilotage.cli.data.datasets import DryRun, list_members
from pilotage.cli.errors import CommandFailure
from pilotage.cli.terminal.output import After, Column, Json, Limit, echo, hint_next, show, show_json

if TYPE_CHECKING:
    from pilotage.client import Client

app = typer.Typer(help="Files of the catalogue: names in scopes, sizes, checksums, and where they lie.")

FILES = (Column("file"), Column("bytes", number=True), Column("checksum", essential=False), Column("where"))
REPLICAS = (Column("storage"), Column("where"))
VERIFIED = (Column("storage"), Column("outcome"))
FileName = Annotated[str, typer.Argument(help="SCOPE:NAME, or a name in your VO's scope.", metavar="FILE")]


app.command(epilog="Example: pilotage files datasets --scope atlas")(datasets.datasets)
app.command(epilog="Example: pilotage files versions atlas:runs-2026")(datasets.versions)
app.command(epilog="Example: pilotage files define atlas:runs-2026 --match 'runs/2026/**'")(datasets.define)

app.command(epilog="Example: pilotage files undefine atlas:runs-2026")(datasets.undefine)
app.command(epilog="Example: pilotage files register /data/north/runs/2026")(registering.register)
app.command(epilog="Example: pilotage files upload calibration.db atlas:conditions/7.db")(uploading.upload)


@app.command("list", epilog="Example: pilotage files list 'runs/2026/**'")
def list_files(
    match: Annotated[
        str, typer.Argument(help="A pattern: * within a folder, ** for any folders.", metavar="[PATTERN]")
    ] = "**",
    scope: Annotated[str, typer.Option(help="Only names in this scope.")] = "",
    dataset: Annotated[str, typer.Option(help="Only files of this dataset: NAME, or NAME@VERSION.")] = "",
    limit: Limit = 100,
    after: After = "",
    json_output: Json = False,
) -> None:
    """List files by name, or the files of a dataset version at the time when it was made."""
    if dataset:
        list_members(dataset, limit, after, json_output)
        return
    with connect() as client:
        page = client.files(match=match, scope=scope, limit=limit, after=after or None)
    if json_output:
        show_json(page)
        return
    rows = [
        (
            file["file"],
            file["size"],
            file["checksum"],
            ", ".join(replica["storage"] for replica in file["replicas"]),
        )
        for file in page
    ]
    show(FILES, rows, "No file matches.")
    hint_next(page, "file")


@app.command(epilog="Example: pilotage files describe atlas:runs/7/events.root")
def describe(file: FileName, json_output: Json = False) -> None:
    """Describe a file: size, checksum, who made it, and its replicas."""
    record = _described(file)
    if json_output:
        show_json(record)
        return
    origin = f", output of job {record['job']} of task {record['task']}" if record["job"] is not None else ""
    echo(f"{record['file']}: {record['size']} bytes, {record['checksum'] or 'checksum unknown'}{origin}")
    for line in record["published"]:
        echo(line)
    _show_replicas(record)


@app.command(epilog="Example: pilotage files replicas atlas:runs/7/events.root")
def replicas(file: FileName, json_output: Json = False) -> None:
    """List the storages that hold a file, with its address at each."""
    record = _described(file)
    if json_output:
        show_json({"replicas": record["replicas"]})
    else:
        _show_replicas(record)


@app.command(epilog="Example: pilotage files forget atlas:runs/7/events.root --storage north-disk")
def forget(
    file: FileName,
    storage: Annotated[str, typer.Option(help="Only its replica there.")] = "",
    dry_run: DryRun = False,
    json_output: Json = False,
) -> None:
    """Forget a file. Copies that Pilotage made and uploads are deleted. Originals stay at their storages.

    A file that a task still reads cannot be forgotten.
    """
    with connect() as client:
        preview = client.forget_file(file, storage=storage, dry_run=dry_run)
    if json_output:
        show_json(preview if dry_run else {"forgotten": file, "storage": storage})
    elif preview:
        echo(f"{preview['file']} would be forgotten" + (f" at {storage}" if storage else ""))
        echo(f"copies and uploads deleted: {', '.join(preview['deleted']) or 'none'}")
        echo(f"originals that stay: {', '.join(preview['kept']) or 'none'}")
    else:
        echo(f"{file} is forgotten" + (f" at {storage}" if storage else ""))


@app.command(epilog="Example: pilotage files verify atlas:runs/7/events.root")
def verify(file: FileName, json_output: Json = False) -> None:
    """Read every replica of a file, and compare size and checksum with the catalogue."""
    with connect() as client:
        record = client.file(file)
        outcomes = {
            replica["storage"]: _outcome(client, record, replica["storage"]) for replica in record["replicas"]
        }
    if json_output:
        show_json({"replicas": outcomes})
    else:
        show(VERIFIED, list(outcomes.items()), "It has no replicas.")
    wrong = [storage for storage, outcome in outcomes.items() if not outcome.startswith("right")]
    if wrong:
        name = record["file"]
        raise CommandFailure(
            f"{name} is wrong at {', '.join(wrong)}; pilotage files forget {name} --storage {wrong[0]}"
        )


def _described(file: str) -> Any:
    with connect() as client:
        return client.file(file)


def _show_replicas(record: Any) -> None:
    rows = [(replica["storage"], replica["url"] or "not in the federation") for replica in record["replicas"]]
    show(REPLICAS, rows, "No storage holds it.")


def _outcome(client: "Client", record: Any, storage: str) -> str:
    """Compare the bytes at a storage with the catalogue."""
    from pilotage.client import ClientError
    from pilotage.client.output_files import Digest

    digest, size = Digest(record["checksum"]), 0
    try:
        with client.content(record["file"], storage=storage, as_it_lies=True) as chunks:
            for chunk in chunks:
                size += len(chunk)
                digest.add(chunk)
    except ClientError as failure:
        return f"cannot be read: {failure}"
    if size != record["size"] or record["checksum"] not in ("", str(digest)):
        # The server sends at most one byte too many.
        content = f"more than {record['size']} bytes" if size > record["size"] else f"{size} bytes, {digest}"
        return (
            f"wrong: {content}; should be {record['size']} bytes, {record['checksum'] or 'checksum unknown'}"
        )
    return "right" if record["checksum"] else f"right in size; its checksum is {digest}"
