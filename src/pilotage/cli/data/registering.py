"""Register files at a storage: from a directory, a manifest, or the server's own listing."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.data.fetching import bar
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import Json, echo, show_json
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from rich.progress import Progress

    from pilotage.cli.data.directories import DirectoryListing
    from pilotage.client import Client

BATCH = 10_000
"""Files registered per request."""

MOST_NAMED = 10
"""Most faults that are listed, and most files for each; of others only the number."""

Batches = Iterator[list[tuple[str, dict[str, Any]]]]
"""Descriptions of files, each with its origin."""


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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count the files, and the new ones.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Register files at a storage: from a directory here, a manifest (without reading the files), or the
    server's listing. You may repeat it: known files stay as they are."""
    _check(source, storage, match)
    left_out, answer = dict[str, str](), dict[str, int]()
    with connect() as client:
        if match:
            answer = _scanned(client, storage, match, scope, dry_run, left_out)
        elif source and source.is_dir():
            listing, read = _listed(client, source, storage), read and not dry_run
            left_out = listing.left_out
            _tell_passed_over(listing.passed_over)
            with bar(listing.size if read else 0, quiet=json_output) as progress:
                answer = _sent(client, _described(listing, progress, read), scope, dry_run, left_out)
            _add_linked(client, listing, scope, dry_run, answer)
        elif source:
            answer = _sent(client, _listed_by(source, storage, left_out), scope, dry_run, left_out)
    _show(answer, left_out, dry_run, json_output)


def _check(source: Path | None, storage: str, match: str) -> None:
    """Check that there is exactly one source of files, with its options.

    Raises ``BadInput``.
    """
    if bool(source) == bool(match) or not (storage or (source and not source.is_file())):
        raise BadInput("give a DIRECTORY; or --storage, and either a manifest or --match PATTERN")
    if source and not source.exists():
        raise BadInput(f"{source}: there is no such directory or manifest")


def _show(answer: dict[str, Any], left_out: dict[str, str], dry_run: bool, json_output: bool) -> None:
    """Print the registered files. Raises ``CommandFailure`` that lists the files left out, if any."""
    if json_output:
        show_json({**answer, "left_out": left_out})
    else:
        done = "would be registered" if dry_run else "registered"
        echo(f"{plural(answer['files'], 'file')} {done}, {answer['new']} of them new")
    if left_out:
        raise CommandFailure(_summarize(left_out))


def _tell_passed_over(paths: dict[str, str]) -> None:
    """Name what a directory has besides plain files."""
    if paths:
        echo(_summarize(paths, "passed over, which are no plain files"), err=True)


def _scanned(
    client: "Client", storage: str, match: str, scope: str, dry_run: bool, left_out: dict[str, str]
) -> dict[str, int]:
    """Let the server list a storage. Files that it refuses go into ``left_out``."""
    answer = client.scan(storage, match, scope=scope, dry_run=dry_run)
    left_out |= {file["name"]: file["reason"] for file in answer["refused"]}
    return {"files": answer["files"], "new": answer["new"]}


def _add_linked(
    client: "Client", listing: "DirectoryListing", scope: str, dry_run: bool, answer: dict[str, int]
) -> None:
    """Let the server list what links of a directory lead to, and add its counts to the answer."""
    for link in listing.links:
        more = _scanned(client, listing.storage, link, scope, dry_run, listing.left_out)
        for name, count in more.items():
            answer[name] += count


def _listed(client: "Client", directory: Path, storage: str) -> "DirectoryListing":
    from pilotage.cli.data.directories import listed

    return listed(directory, storage, client.federation()["storages"])


def _listed_by(manifest: Path, storage: str, left_out: dict[str, str]) -> Batches:
    """Yield the descriptions of a manifest in batches. Invalid lines go into ``left_out``."""
    from pilotage.cli.data.manifests import entries

    lines = entries(manifest, storage, left_out)
    return iter(lambda: list(islice(lines, BATCH)), [])


def _described(listing: "DirectoryListing", progress: "Progress | None", read: bool) -> Batches:
    """Yield the descriptions of a directory's files in batches. With ``read`` they have checksums."""

    def advanced(size: int) -> None:
        if progress is not None:
            progress.advance(progress.task_ids[0], size)

    for batch in listing.batches(BATCH):
        described = listing.read(batch, advanced) if read else listing.unread(batch)
        yield [(file["name"], file) for file in described]


def _summarize(left_out: dict[str, str], label: str = "left out") -> str:
    """Return which files were left out, and why, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    for path in sorted(left_out, key=_natural):
        reasons.setdefault(left_out[path], []).append(path.replace("\n", "\\n"))
    lines = [f"{len(left_out)} {label}"]
    for reason, paths in list(reasons.items())[:MOST_NAMED]:
        lines += [f"{reason}:", *(f"  {path}" for path in paths[:MOST_NAMED])]
        lines += [f"  and {len(paths) - MOST_NAMED} more"] if len(paths) > MOST_NAMED else []
    if len(reasons) > MOST_NAMED:
        lines.append(f"and {len(reasons) - MOST_NAMED} other reasons; --json shows all")
    return "\n".join(lines)


def _natural(path: str) -> list[tuple[int, str]]:
    """Return a key that sorts line 9 before line 10."""
    parts = (part.lstrip("0") if part.isdecimal() else part for part in re.split("([0-9]+)", path))
    return [(len(part) if part.isdecimal() else 0, part) for part in parts]


def _sent(
    client: "Client", batches: Batches, scope: str, dry_run: bool, left_out: dict[str, str]
) -> dict[str, int]:
    """Register files batch by batch. Return how many there were, and how many were new.

    Files that the server refuses go into ``left_out``.
    """
    answer = {"files": 0, "new": 0}
    for batch in batches:
        if not batch:
            continue
        files = [{**entry, "scope": scope} for _, entry in batch]
        reply = client.register(files, each=True, dry_run=dry_run)
        left_out |= {batch[refusal["at"]][0]: refusal["reason"] for refusal in reply["refused"]}
        answer["new"] += reply["new"]
        answer["files"] += len(batch) - len(reply["refused"])
    return answer
