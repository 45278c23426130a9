"""List stuck records."""

from collections.abc import Mapping
from typing import Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.terminal.output import Json, ago, echo, show_json

app = typer.Typer()


@app.command(epilog="Example: pilotage stuck")
def stuck(json_output: Json = False) -> None:
    """List what made no progress for longer than usual, why, and what to do. For operators.

    Jobs, transfers, pilots, tasks, publications and notifications count as stuck once they are in their state
    for twice as long as 95 % of the newest ones at the same queue or storage took. Each kind has a floor:
    nothing is stuck sooner.
    """
    with connect() as client:
        found = client.stuck()
    if json_output:
        show_json(found)
        return
    if not found:
        echo("Nothing is stuck.")
    for one in found:
        echo(f"{_what(one)}: {one['told']}")
        echo(f"    why: {one['reason']}")
        echo(f"    do:  {one['command']}")


def _what(one: Mapping[str, Any]) -> str:
    """Return ``12 jobs activated at north-short, the oldest job:345 for 3 h``."""
    from pilotage.explain.stuck import what_of

    what = what_of(one["kind"], one["state"], one["place"], one["count"])
    if one["since"] is None:
        return what
    return f"{what}, the oldest {one['kind']}:{one['oldest']} for {ago(one['since'])}"
