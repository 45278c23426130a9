"""Show and set quotas."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput
from pilotage.cli.places.restricting import Because
from pilotage.cli.terminal.output import Column, Json, ago, echo, show, show_json

app = typer.Typer(
    help="Show what limits your work; set limits of people, groups and VOs.", invoke_without_command=True
)

OF_CALLER = (Column("quota"), Column("whose"), Column("used", number=True), Column("limit", number=True))
EXCEPTIONS = (Column("whose"), Column("limits"), Column("by"), Column("why", essential=False))
LIMITS = ("tasks", "jobs", "files", "stored", "uploaded", "core_hours", "transferred", "target")

Holder = Annotated[str, typer.Argument(help="A person, group:NAME or vo:NAME.", metavar="PERSON|GROUP|VO")]
Vo = Annotated[str | None, typer.Option(help="The VO of the person or group, if it is not yours.")]


@app.callback(epilog="Example: pilotage quotas")
def quotas(context: typer.Context, json_output: Json = False) -> None:
    """Show what limits your work, and the limits of single people, groups and VOs that you may see."""
    if context.invoked_subcommand:
        return
    with connect() as client:
        document = client.quotas()
    if json_output:
        show_json(document)
        return
    rows = [
        (row["constant"], row["holder"], f"{row['used']:,.1f}".removesuffix(".0"), _number(row["limit"]))
        for row in document["of_caller"]
    ]
    show(OF_CALLER, rows, "Nothing limits your work.")
    if document["exceptions"]:
        echo("")
        show(EXCEPTIONS, [_row(row) for row in document["exceptions"]], "")


@app.command("set", epilog='Example: pilotage quotas set ada --core-hours 5000 --because "thesis"')
def set_(
    holder: Holder,
    because: Because,
    vo: Vo = None,
    tasks: Annotated[int | None, typer.Option(min=0, help="Unfinished tasks.")] = None,
    jobs: Annotated[int | None, typer.Option(min=0, help="Live jobs. Further ones wait.")] = None,
    files: Annotated[int | None, typer.Option(min=0, help="Input files of unfinished tasks.")] = None,
    stored: Annotated[int | None, typer.Option(min=0, help="MB of the store for a person's tasks.")] = None,
    uploaded: Annotated[float | None, typer.Option(min=0, help="GB of uploaded files.")] = None,
    core_hours: Annotated[float | None, typer.Option(min=0, help="Core hours in a calendar month.")] = None,
    transferred: Annotated[
        float | None, typer.Option(min=0, help="GB of inputs and outputs in a calendar month.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Set limits of a person, a group or a VO, in place of earlier ones. They hold at once.

    For operators, and for managers in their VO. A reload of the federation does not undo it.
    """
    values = (tasks, jobs, files, stored, uploaded, core_hours, transferred)
    limits: dict[str, Any] = {
        name: value for name, value in zip(LIMITS, values, strict=False) if value is not None
    }
    if not limits:
        raise BadInput("give a limit, such as --core-hours 5000")
    with connect() as client:
        quota = client.set_quota(holder, because=because, vo=vo, **limits)
    if json_output:
        show_json(quota)
    else:
        echo(f"{_whose(quota)}: {_limits(quota)}")


@app.command(epilog='Example: pilotage quotas lift ada --because "thesis is done"')
def lift(holder: Holder, because: Because, vo: Vo = None, json_output: Json = False) -> None:
    """End limits that were set: those of the federation's file hold again."""
    with connect() as client:
        quota = client.lift_quota(holder, because=because, vo=vo)
    if json_output:
        show_json(quota)
    else:
        echo(f"{_whose(quota)}: lifted: {_limits(quota)}")


def _row(quota: Mapping[str, Any]) -> tuple[str, str, str, str]:
    by = f"{quota['actor']} {ago(quota['since'])} ago" if quota["actor"] else "the federation's file"
    return _whose(quota), _limits(quota), by, quota["because"]


def _whose(quota: Mapping[str, Any]) -> str:
    if quota["kind"] == "vo":
        return f"vo:{quota['vo']}"
    name = quota["name"] if quota["kind"] == "person" else f"{quota['kind']}:{quota['name']}"
    return f"{name} of {quota['vo']}" if quota["vo"] else str(name)


def _limits(quota: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_number(quota[name])}" for name in LIMITS if quota[name] is not None)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,.1f}".removesuffix(".0")
