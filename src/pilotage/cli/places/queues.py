"""Queues and global shares, with their current load."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.places import queue_test
from pilotage.cli.places.breakers import summary
from pilotage.cli.places.restricting import Because, add_verbs
from pilotage.cli.terminal.output import Column, Json, counts, echo, limit_of, show, show_json
from pilotage.explain.restrictions import status

app = typer.Typer(help="Show queues; test, drain, close or open one.", invoke_without_command=True)
shares_app = typer.Typer(help="Show global shares; set their targets.", invoke_without_command=True)

QUEUES = (
    Column("queue"),
    Column("site", essential=False),
    Column("status"),
    Column("cores", essential=False, number=True),
    Column("memory", essential=False, number=True),
    Column("walltime", essential=False, number=True),
    Column("jobs"),
    Column("pilots"),
    Column("why", essential=False),
)
HISTORY = (
    Column("share"),
    Column("target", number=True),
    Column("used", number=True),
    Column("running", number=True),
    Column("use over time", essential=False),
)
SHARES = (
    Column("share"),
    Column("vo"),
    Column("target", number=True),
    Column("jobs"),
    Column("transfers"),
)


MOST_BARS = 48
"""Most spans of time of a share that a line shows, the last ones."""


@app.callback(epilog="Example: pilotage queues --json\n\nExample: pilotage queues test north-short")
def queues(context: typer.Context, json_output: Json = False) -> None:
    """Show queues with their limits, jobs, pilots, and circuit breakers that have tripped.

    While its breaker is open, a queue gets no work; the table shows until when, and why.
    """
    if context.invoked_subcommand:
        return
    with connect() as client:
        records = client.queues()
    if json_output:
        show_json(records)
        return
    rows = [
        (
            queue["name"],
            queue["site"],
            _status(queue),
            queue["cores"] or "any",
            limit_of(queue["max_memory"], "MB"),
            limit_of(queue["max_walltime"] / 3600, "h"),
            counts(queue["jobs"]),
            counts(queue["pilots"]),
            "; ".join(filter(None, (queue.get("restriction", ""), summary(queue["breakers"])))),
        )
        for queue in records
    ]
    show(QUEUES, rows, "There are no queues; load a federation with: pilotage federation load FILE")


def _status(queue: Any) -> str:
    """Return a queue's status, with the state of a breaker that holds back more than single nodes."""
    states = {breaker["state"] for breaker in queue["breakers"] if breaker["kind"] != "node"}
    return status(queue["status"], queue.get("restriction", ""), states)


app.command(name="test", epilog="Example: pilotage queues test north-short --timeout 3600")(
    queue_test.send_pilot
)


add_verbs(app, "queue")


@shares_app.callback(epilog="Example: pilotage shares\n\nExample: pilotage shares --days 7")
def shares(
    context: typer.Context,
    days: Annotated[
        int | None, typer.Option(min=1, max=30, help="Show their use over so many days instead.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Show global shares with their jobs and transfers, or their use over days."""
    if context.invoked_subcommand:
        return
    if days is not None:
        _show_history(days, json_output)
        return
    with connect() as client:
        records = client.shares()
    if json_output:
        show_json(records)
        return
    rows = [
        (
            share["name"],
            share["vo"],
            f"{share['target']:g}" if share["follows"] is None else _followed(share),
            counts(share["jobs"]),
            counts(share["transfers"]),
        )
        for share in records
    ]
    show(SHARES, rows, "There are no shares.")


ShareName = Annotated[str, typer.Argument(metavar="NAME", help="The share.")]


@shares_app.command("set", epilog='Example: pilotage shares set higgs 3 --because "conference in May"')
def set_target(
    name: ShareName,
    target: Annotated[
        float, typer.Argument(metavar="TARGET", min=0, help="Its part, relative to its siblings' targets.")
    ],
    because: Because,
    json_output: Json = False,
) -> None:
    """Set the target of a share, in place of the declared one. It holds at once.

    For operators, and for managers inside the share of their VO. A reload of the federation does not undo it.
    """
    with connect() as client:
        share = client.set_quota(f"share:{name}", because=because, target=target)
    if json_output:
        show_json(share)
    else:
        echo(f"{name}: target {share['target']:g}")


@shares_app.command("lift", epilog='Example: pilotage shares lift higgs --because "the conference is over"')
def lift_target(name: ShareName, because: Because, json_output: Json = False) -> None:
    """End a target that was set: the declared one holds again."""
    with connect() as client:
        share = client.lift_quota(f"share:{name}", because=because)
    if json_output:
        show_json(share)
    else:
        echo(f"{name}: lifted: target {share['target']:g}")


def _followed(share: Mapping[str, Any]) -> str:
    """Return the target of a share that follows its use: declared, with its use, and in force."""
    return f"{share['target']:g}, used {share['used']:.0%}: {share['follows']:g}"


def _show_history(days: int, json_output: bool) -> None:
    """Show what shares used of the running jobs, in the mean and over time."""
    from pilotage.explain.layout import bars

    with connect() as client:
        records = client.share_history(days=days)
    if json_output:
        show_json(records)
        return
    rows = [
        (
            share["share"],
            f"{share['target']:.0%}",
            f"{share['used']:.0%}",
            f"{share['running']:.1f}",
            f"|{bars([span['used'] for span in share['spans'][-MOST_BARS:]], 1.0)}|",
        )
        for share in records
    ]
    show(HISTORY, rows, "Nothing ran in that time, or no server has recorded it.")
