"""List workflows: tasks that come after each other."""

from typing import Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.terminal.output import After, Column, Json, Limit, ago, counts, hint_next, show, show_json
from pilotage.cli.terminal.states import Verbose
from pilotage.model.rules.plain_states import tasks_phrase

app = typer.Typer()

WORKFLOWS = (
    Column("workflow"),
    Column("name"),
    Column("tasks"),
    Column("owner", essential=False),
    Column("submitted", number=True),
)


@app.command(epilog="Example: pilotage workflows, and one of them: pilotage status workflow:3")
def workflows(
    limit: Limit = 50,
    after: After = "",
    verbose: Verbose = False,
    json_output: Json = False,
) -> None:
    """List workflows, newest first, with their tasks by state."""
    with connect() as client:
        page = client.workflows(limit=limit, after=after or None)
    if json_output:
        show_json(page)
        return
    show(WORKFLOWS, [_row(view, verbose) for view in page], "There are no workflows.")
    hint_next(page, "workflow")


def _row(view: Any, verbose: bool) -> tuple[object, ...]:
    owner = f"{view['owner']} ({view['vo']})" if view["vo"] else view["owner"]
    return (
        f"workflow:{view['id']}",
        view["name"],
        counts(view["tasks"]) if verbose else tasks_phrase(view["tasks"]),
        owner,
        ago(view["created"]),
    )
