"""Move a storage: its files follow to another one."""

import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.errors import CommandFailure
from pilotage.cli.terminal.output import Json, echo, one_line, show_json
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.client import Client

PERIOD = 5.0
"""Seconds between two rounds of --watch."""

MOST_NAMED = 20
"""Most files that are named of each kind."""

WAITING = ("requested", "moving", "in use")
"""Steps of files that another round may find further on."""


def move(
    old: Annotated[str, typer.Argument(help="The storage that goes; drain it first.", metavar="OLD")],
    new: Annotated[str, typer.Argument(help="The storage that its files go to.", metavar="NEW")],
    same_place: Annotated[
        bool, typer.Option("--same-place", help="Both are names of one place: look there, copy nothing.")
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Transfer files again that failed to arrive.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on until no file is on its way.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    json_output: Json = False,
) -> None:
    """Let the files of a drained storage follow to another one. For operators.

    They are copied by transfers of the lowest priority. Where both storages have one URL, or with
    --same-place, they are only recorded there, after a look at size and checksum. Once a file is there, the
    catalogue forgets the old place. Originals stay there: delete them yourself. So do files that the
    catalogue does not know: `pilotage files register --match '**' --storage OLD` makes them known.

    Run it again to see the progress. The exit code is 1 if a file would be lost with the old storage.
    """
    from pilotage.cli.configuration import connect

    options = {"same_place": same_place, "again": retry, "dry_run": dry_run}
    with connect() as client:
        result = _round(client, old, new, options)
        while watch and not dry_run and any(result["steps"].get(step) for step in WAITING):
            echo(_progress(old, result), err=True)
            time.sleep(PERIOD)
            result = _round(client, old, new, {**options, "again": False})
    if json_output:
        show_json({**result, "steps": dict(result["steps"])})
    else:
        _show(old, new, result, dry_run)
    if lost := sum(file["lost"] for file in result["files"]):
        raise CommandFailure(f"{plural(lost, 'file')} would be lost with {old}: no other storage has them")


def _round(client: "Client", old: str, new: str, options: dict[str, bool]) -> dict[str, Any]:
    """Ask for every page once. Return the files that did not move, and counts by step."""
    steps: Counter[str] = Counter()
    files: list[Any] = []
    after, cursors = "", {""}
    while True:
        page = client.move_storage(old, new, after=after, **options)
        steps.update(file["step"] for file in page["files"])
        files += [file for file in page["files"] if file["step"] in ("failed", "missing")]
        after = page["next"]
        if not after:
            rest = {name: page[name] for name in ("left", "bytes_left", "same_place")}
            return {"steps": steps, "files": files, **rest}
        if after in cursors:
            raise CommandFailure(f"the server's pages of {old} lead back to one that was read already")
        cursors.add(after)


def _progress(old: str, result: dict[str, Any]) -> str:
    steps = ", ".join(f"{count} {step}" for step, count in sorted(result["steps"].items()))
    return f"{steps or 'nothing to move'}; {old} still has {plural(result['left'], 'file')}"


def _show(old: str, new: str, result: dict[str, Any], dry_run: bool) -> None:
    method = "recorded there, for both are one place" if result["same_place"] else "copied"
    echo(f"{old} to {new}, {method}{': it would be' if dry_run else ''}")
    size = result["bytes_left"] / 1e9
    echo(f"    {_progress(old, result)}, {size:.1f} GB")
    for file in result["files"][:MOST_NAMED]:
        reason = one_line(file["error"]) or f"it does not lie at {new}, or has other bytes"
        rest = "lost with the old storage" if file["lost"] else "other storages have it"
        echo(f"    {file['file']}: {reason}; {rest}")
    if len(result["files"]) > MOST_NAMED:
        echo(f"    and {len(result['files']) - MOST_NAMED} more: --json names all")
    if dry_run or not result["left"]:
        echo("    files that the catalogue does not know stay behind; to bring them, first:")
        echo(f"    pilotage files register --match '**' --storage {old}")
    if not result["left"] and not dry_run:
        echo(f"nothing is left: take {old} out of the federation's file, and load it")
