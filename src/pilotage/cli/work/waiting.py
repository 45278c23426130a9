"""Wait for tasks, and watch them."""

from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import CommandFailure
from pilotage.cli.terminal.output import Json, echo, show_json
from pilotage.cli.terminal.states import line_of_task
from pilotage.cli.terminal.subjects import task_numbers
from pilotage.model.records.states import LIVE_TASKS

if TYPE_CHECKING:
    from pilotage.client import Client

app = typer.Typer()

MOST_WATCHED = 20
"""Most live tasks that are watched where none is named."""


@app.command(epilog="Example: pilotage wait 12 13, or until the first ends: pilotage wait 12 13 --any")
def wait(
    tasks: Annotated[list[str], typer.Argument(help="Tasks, or workflows.", metavar="TASK...")],
    is_any: Annotated[bool, typer.Option("--any", help="Return when the first of them has ended.")] = False,
    timeout: Annotated[
        float | None, typer.Option(min=0, max=1e8, help="Seconds until it ends with 4.", metavar="S")
    ] = None,
    json_output: Json = False,
) -> None:
    """Return when tasks have ended: 0 if they are done, 1 if one failed or was cancelled.

    A task that is blocked by a failed one before it counts as failed: it starts only if a person acts.
    It ends with 4 after the timeout, and with 130 after Ctrl-C. Either way the tasks go on.
    """
    from pilotage.cli.work import following

    with connect() as client:
        views = following.follow(client, task_numbers(client, tasks), False, is_any=is_any, timeout=timeout)
    ended = [view for view in views if following.has_ended(view)]
    if json_output:
        show_json({"tasks": ended})
    else:
        for view in ended:
            if view["state"] == "finished":
                echo(line_of_task(view))
    following.fail_unless_finished(ended)


@app.command(epilog="Example: pilotage watch 12 13, or all that are under way: pilotage watch")
def watch(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(help="Tasks, workflows; else those under way.", metavar="[TASK...]"),
    ] = None,
    json_output: Json = False,
) -> None:
    """Show how tasks go on until they have ended: a bar for each on a terminal, else a line a change.

    On a terminal, keys select a task, and show why it waits or the log of its newest failed or running job.
    q or Ctrl-C ends the view; the tasks go on.
    """
    from pilotage.cli.work import following, watching

    with connect() as client:
        numbers = task_numbers(client, tasks) if tasks else _under_way(client)
        if not json_output and watching.has_keys():
            watching.watch(client, numbers)
            return
        views = following.follow(client, numbers, is_shown=not json_output)
    if json_output:
        show_json({"tasks": views})


def _under_way(client: "Client") -> list[int]:
    # A set: a task may go on while the pages are read.
    numbers = {view["id"] for state in LIVE_TASKS for view in client.tasks(state=state, limit=MOST_WATCHED)}
    if not numbers:
        raise CommandFailure("no task is under way; the last ones: pilotage status")
    return sorted(numbers)[-MOST_WATCHED:]
