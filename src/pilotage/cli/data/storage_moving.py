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
        bool, typer.Option("--retry", help="Ask again for files whose transfer failed.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on until no file is on its way.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    json_output: Json = False,
) -> None:
    """Let the files of a drained storage follow to another one. For operators.

    They are copied by transfers of the lowest priority. Where both storages have one URL, or with
    --same-place, they are only recorded there, after a look at size and checksum. Once a file is there, the
    catalogue forgets the old place. Originals stay where they lie: delete them yourself. So do files that the
    catalogue does not know: `pilotage files register --match '**' --storage OLD` makes them known.

    Run it again to see the progress. The exit code is 1 if a file would be lost with the old storage.
    """
    from pilotage.cli.configuration import connect

    asked = {"same_place": same_place, "again": retry, "dry_run": dry_run}
    with connect() as client:
        found = _round(client, old, new, asked)
        while watch and not dry_run and any(found["steps"].get(step) for step in WAITING):
            echo(_progress(old, found), err=True)
            time.sleep(PERIOD)
            found = _round(client, old, new, {**asked, "again": False})
    if json_output:
        show_json({**found, "steps": dict(found["steps"])})
    else:
        _show(old, new, found, dry_run)
    if lost := sum(one["lost"] for one in found["files"]):
        raise CommandFailure(f"{plural(lost, 'file')} would be lost with {old}: no other storage has them")


def _round(client: "Client", old: str, new: str, asked: dict[str, bool]) -> dict[str, Any]:
    """Ask for every page once. Return the files that did not move, and counts by step."""
    steps: Counter[str] = Counter()
    files: list[Any] = []
    after, seen = "", {""}
    while True:
        page = client.move_storage(old, new, after=after, **asked)
        steps.update(one["step"] for one in page["files"])
        files += [one for one in page["files"] if one["step"] in ("failed", "missing")]
        after = page["next"]
        if not after:
            rest = {name: page[name] for name in ("left", "bytes_left", "same_place")}
            return {"steps": steps, "files": files, **rest}
        if after in seen:
            raise CommandFailure(f"the server's pages of {old} lead back to one that was read already")
        seen.add(after)


def _progress(old: str, found: dict[str, Any]) -> str:
    steps = ", ".join(f"{many} {step}" for step, many in sorted(found["steps"].items()))
    return f"{steps or 'nothing to move'}; {old} still has {plural(found['left'], 'file')}"


def _show(old: str, new: str, found: dict[str, Any], dry_run: bool) -> None:
    way = "recorded there, for both are one place" if found["same_place"] else "copied"
    echo(f"{old} to {new}, {way}{': it would be' if dry_run else ''}")
    size = found["bytes_left"] / 1e9
    echo(f"    {_progress(old, found)}, {size:.1f} GB")
    for one in found["files"][:MOST_NAMED]:
        reason = one_line(one["error"]) or f"it does not lie at {new}, or has other bytes"
        rest = "lost with the old storage" if one["lost"] else "other storages have it"
        echo(f"    {one['file']}: {reason}; {rest}")
    if len(found["files"]) > MOST_NAMED:
        echo(f"    and {len(found['files']) - MOST_NAMED} more: --json names all")
    if dry_run or not found["left"]:
        echo("    files that the catalogue does not know stay behind; to bring them, first:")
        echo(f"    pilotage files register --match '**' --storage {old}")
    if not found["left"] and not dry_run:
        echo(f"nothing is left: take {old} out of the federation's file, and load it")
