"""List what is stuck."""

from collections.abc import Mapping
from typing import Any

import typer

from .configuration import connect
from .output import Json, ago, echo, show_json

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
    """Return ``12 jobs activated at north-short, the oldest (345) for 3 h``."""
    if one["kind"] == "step":
        return f"step {one['place']} fails"
    from pilotage.model.values.phrases import plural

    where = f" at {one['place']}" if one["place"] else ""
    since = f"{one['kind']}:{one['oldest']} for {ago(one['since'])}"
    return f"{plural(one['count'], one['kind'])} {one['state']}{where}, the oldest {since}"
