"""Close people."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput
from pilotage.cli.places.restricting import Because
from pilotage.cli.terminal.output import Json, ask, echo, show_json
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.client import Client

app = typer.Typer(help="Close a person: end their tokens, tasks and pilots together.", no_args_is_help=True)

COUNTED = ("token", "task", "job", "pilot", "secret", "receiver")


@app.callback()
def people() -> None:
    """Close a person: end their tokens, tasks and pilots together."""


@app.command(epilog='Example: pilotage people close ada --because "left the institute" --dry-run')
def close(
    name: Annotated[str, typer.Argument(help="The person, as tokens and tasks name them.")],
    because: Because,
    vo: Annotated[
        str | None, typer.Option(help="Their VO; needed where several have a person of this name.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would end.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before.")] = False,
    json_output: Json = False,
) -> None:
    """Revoke a person's tokens, cancel their tasks, end their private pilots, and delete their secrets.

    Their outputs and datasets stay, and are named. Within 5 s no server takes their tokens. For operators.
    """
    if not name.strip():
        raise BadInput("the name is empty; say whom to close")
    with connect() as client:
        would = client.close_person(name, because=because, vo=vo, dry_run=True)
        if dry_run:
            _show(would, "would end", json_output)
            return
        if not yes:
            ask(f"close {would['name']}: {_counted(would)}")
        done = _closed(client, would, because)
    _show(done, "ended", json_output)


def _closed(client: "Client", would: Mapping[str, Any], because: str) -> Mapping[str, Any]:
    """Close the person, again until no live task is left. Return what all calls closed together."""
    summary: dict[str, Any] = dict(client.close_person(would["name"], because=because, vo=would["vo"]))
    while summary["left"]:
        more = client.close_person(would["name"], because=because, vo=would["vo"])
        summary |= {"tasks": [*summary["tasks"], *more["tasks"]], "left": more["left"]}
        summary["jobs"] += more["jobs"]
    return summary


def _counted(summary: Mapping[str, Any]) -> str:
    numbers = {noun: summary[f"{noun}s"] for noun in COUNTED}
    sizes = {noun: len(value) if isinstance(value, list) else value for noun, value in numbers.items()}
    sizes["task"] += summary["left"]
    return ", ".join(plural(count, noun) for noun, count in sizes.items() if count) or "nothing"


def _show(summary: Mapping[str, Any], word: str, json_output: bool) -> None:
    if json_output:
        show_json(summary)
        return
    who = f"{summary['name']} ({summary['vo']})" if summary["vo"] else summary["name"]
    echo(f"{who}: {word}: {_counted(summary)}")
    if summary["tasks"]:
        numbers = ", ".join(map(str, summary["tasks"][:20])) + (", ..." if len(summary["tasks"]) > 20 else "")
        echo(f"tasks: {numbers}")
    datasets = summary["datasets"]
    owned = f", and {plural(len(datasets), 'dataset')}" if datasets else ""
    echo(f"what stays: {'outputs,' if owned else 'outputs and'} what has ended{owned}")
    for dataset in datasets:
        echo(f"    {dataset}")
