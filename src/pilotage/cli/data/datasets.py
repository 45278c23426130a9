"""Datasets of the catalogue, as commands of ``pilotage files``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput
from pilotage.cli.terminal.output import After, Column, Json, Limit, ago, echo, hint_next, show, show_json
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.client import Record, Table

DATASETS = (
    Column("dataset"),
    Column("version", number=True),
    Column("files", number=True),
    Column("bytes", number=True),
    Column("made"),
    Column("by", essential=False),
)
MEMBERS = (Column("file"), Column("bytes", number=True), Column("checksum", essential=False))

DatasetName = Annotated[
    str, typer.Argument(help="SCOPE:NAME, or a name in your VO's scope.", metavar="DATASET")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be forgotten.")]


def datasets(
    scope: Annotated[str, typer.Option(help="Only datasets of this scope.")] = "",
    limit: Limit = 100,
    after: After = "",
    json_output: Json = False,
) -> None:
    """List datasets, each with its current version."""
    with connect() as client:
        page = client.datasets(scope=scope, limit=limit, after=after or None)
    _show(page, json_output, "There are no datasets.", "dataset")


def versions(dataset: DatasetName, limit: Limit = 100, after: After = "", json_output: Json = False) -> None:
    """List the versions of a dataset, the newest first."""
    with connect() as client:
        page = client.dataset_versions(dataset, limit=limit, after=after or None)
    _show(page, json_output, "There are none.", "version")


def define(
    dataset: DatasetName,
    files: Annotated[list[str] | None, typer.Argument(help="Names of files.", metavar="[FILE]...")] = None,
    match: Annotated[str, typer.Option(help="Files that match: * within a folder, ** for any.")] = "",
    from_file: Annotated[Path | None, typer.Option("--from", help="A file with a name in each line.")] = None,
    add: Annotated[bool, typer.Option("--add", help="Add these files to the current version's.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Take the current version's files without these.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Make the next version of a dataset from registered files in its scope.

    Older versions stay as they are. If nothing would differ, there is no new version.
    """
    if add and remove:
        raise BadInput("give --add or --remove, not both")
    scope, colon, name = dataset.rpartition(":")
    named = [*(files or ()), *_names(from_file)]
    edit = "add" if add else "remove" if remove else "set"
    if not (named or match):
        raise BadInput("name files, or give --match PATTERN or --from FILE")
    with connect() as client:
        version = client.make_dataset(name, scope=scope if colon else "", edit=edit, files=named, match=match)
    if json_output:
        show_json(version)
    else:
        echo(
            f"{version['dataset']}@{version['version']}: "
            f"{plural(version['files'], 'file')}, {version['size']} bytes"
        )


def undefine(dataset: DatasetName, dry_run: DryRun = False, json_output: Json = False) -> None:
    """Forget a dataset with all its versions, unless a task still reads one. Its files stay as they are."""
    with connect() as client:
        record = client.forget_dataset(dataset, dry_run=dry_run)
    if json_output:
        show_json(record if dry_run else {"forgotten": dataset})
    elif record:
        files = plural(record["files"], "file")
        echo(f"{record['dataset']} would be forgotten, up to version {record['version']}; its {files} stay")
    else:
        echo(f"{dataset} is forgotten; its files stay")


def list_members(dataset: str, limit: int, after: str, json_output: bool) -> None:
    """Show the files of ``DATASET`` or ``DATASET@VERSION``."""
    name, _, version = dataset.partition("@")
    if version and not version.isdecimal():
        raise BadInput(f"{version!r} is no version: give NAME@3, for instance")
    chosen = int(version) if version else None
    with connect() as client:
        page = client.dataset_files(name, limit=limit, after=after or None, version=chosen)
    if json_output:
        show_json(page)
        return
    rows = [(file["file"], file["size"], file["checksum"]) for file in page]
    show(MEMBERS, rows, "It has no files.")
    hint_next(page, "file")


def _names(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from error


def _show(page: "Table[Record]", json_output: bool, nothing: str, noun: str) -> None:
    if json_output:
        show_json(page)
        return
    rows = [
        (
            dataset["dataset"],
            dataset["version"],
            dataset["files"],
            dataset["size"],
            ago(dataset["created"]),
            dataset["author"],
        )
        for dataset in page
    ]
    show(DATASETS, rows, nothing)
    hint_next(page, noun)
