"""Register files that lie at a storage: of a directory, a manifest, or a listing by the server."""

import json
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .datasets import DryRun
from .errors import BadInput, CommandFailure
from .fetching import bar
from .output import Json, echo, plural, show_json

if TYPE_CHECKING:
    from rich.progress import Progress

    from .client import Client
    from .directories import DirectoryListing

BATCH = 10_000
"""Files that are registered in one request."""

MOST_NAMED = 10
"""Files whose fault is told; of more, their number."""

Batches = Iterator[list[dict[str, Any]]]


def register(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="A directory of the storage; or lines of NAME,SIZE,CHECKSUM; or JSON lines with these.",
            metavar="[DIRECTORY|MANIFEST]",
        ),
    ] = None,
    storage: Annotated[
        str, typer.Option(help="The storage where they lie; of a directory it is found by itself.")
    ] = "",
    match: Annotated[str, typer.Option(help="Instead: what matches at the storage.")] = "",
    scope: Annotated[str, typer.Option(help="The scope of their names; empty: your VO's.")] = "",
    read: Annotated[
        bool, typer.Option("--checksums/--no-checksums", help="Whether files of a directory are read.")
    ] = True,
    dry_run: DryRun = False,
    json_output: Json = False,
) -> None:
    """Register files that lie at a storage: of a directory here, of a manifest, or of a listing.

    Nothing is read of files that a manifest describes. May be repeated: what is known already stays.
    """
    from .client import Client

    if bool(source) == bool(match) or not (storage or (source and not source.is_file())):
        raise BadInput("give a DIRECTORY; or --storage, and either a manifest or --match PATTERN")
    if source and not source.exists():
        raise BadInput(f"{source}: there is no such directory or manifest")
    left_out: dict[str, str] = {}
    with Client() as client:
        if match:
            body = {"storage": storage, "match": match, "scope": scope, "dry_run": dry_run}
            answer = client.send("POST", "/files/scan", body)
        elif source and source.is_dir():
            found = _listed(client, source, storage)
            left_out = found.left_out
            with bar(found.size if read and not dry_run else 0, quiet=json_output) as progress:
                answer = _sent(client, _described(found, progress, read and not dry_run), scope, dry_run)
        else:
            answer = _sent(client, _batches(source, storage), scope, dry_run)
    if json_output:
        show_json({**answer, "left_out": left_out})
    else:
        done = "would be registered" if dry_run else "registered"
        echo(f"{plural(answer['files'], 'file')} {done}, {answer['new']} of them new")
    if left_out:
        raise CommandFailure(_told(left_out))


def _listed(client: "Client", directory: Path, storage: str) -> "DirectoryListing":
    from .directories import listed

    return listed(directory, storage, client.get("/federation")["storages"])


def _described(found: "DirectoryListing", progress: "Progress", read: bool) -> Batches:
    """Describe the files of a directory in batches, with their checksums where they are ``read``."""
    advanced = partial(progress.advance, progress.task_ids[0])
    for batch in found.batches(BATCH):
        yield found.read(batch, advanced) if read else found.unread(batch)


def _told(left_out: dict[str, str]) -> str:
    """Tell which files were left out, and why; those with one reason together."""
    reasons: dict[str, list[str]] = {}
    for path, reason in sorted(left_out.items()):
        reasons.setdefault(reason, []).append(repr(path))
    lines = [f"{plural(len(left_out), 'path')} left out"]
    for reason, paths in reasons.items():
        more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
        lines.append(f"{', '.join(paths[:MOST_NAMED])}{more}: {reason}")
    return "\n".join(lines)


def _sent(client: "Client", batches: Batches, scope: str, dry_run: bool) -> dict[str, int]:
    """Send files to be registered, batch by batch; returns how many there were, and how many were new."""
    answer = {"files": 0, "new": 0}
    for batch in batches:
        body = {"files": [{**one, "scope": scope} for one in batch], "dry_run": dry_run}
        answer["new"] += client.send("POST", "/files", body)["new"] if batch else 0
        answer["files"] += len(batch)
    return answer


def _batches(manifest: Path | None, storage: str) -> Batches:
    """Read a manifest in batches; a faulty line is told with its number."""
    if manifest is None:
        return
    try:
        with manifest.open(encoding="utf-8") as lines:
            entries = (
                {**_entry(manifest, number, line), "replicas": [storage]}
                for number, line in enumerate(lines, start=1)
                if line.strip()
            )
            while batch := list(islice(entries, BATCH)):
                yield batch
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{manifest}: {error}") from error


def _entry(manifest: Path, number: int, line: str) -> dict[str, Any]:
    """Read one line: ``NAME,SIZE,CHECKSUM``, the checksum may be left out, or the same as a JSON object."""
    try:
        if line.lstrip().startswith("{"):
            found = json.loads(line)
            return {"name": found["name"], "size": found["size"], "checksum": found.get("checksum", "")}
        name, size, checksum, *_ = [*(word.strip() for word in line.split(",")), ""]
        return {"name": name, "size": int(size), "checksum": checksum}
    except (ValueError, KeyError, TypeError) as error:
        example = "runs/7/events.root,1048576,adler32:0a1b2c3d"
        raise BadInput(
            f"{manifest}, line {number}: {line.strip()[:80]!r} is no NAME,SIZE,CHECKSUM such as {example}"
        ) from error
