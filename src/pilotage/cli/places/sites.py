"""Sites: their advertisements, and which of them match a task."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput
from pilotage.cli.places.restricting import add_verbs
from pilotage.cli.terminal.output import Column, Json, ago, echo, show, show_json
from pilotage.cli.terminal.subjects import Task, task_number

app = typer.Typer(
    help="Show sites, their advertisements, and what matches them; drain, close or open one.",
    invoke_without_command=True,
)

SITES = (
    Column("site"),
    Column("source"),
    Column("age", number=True),
    Column("jobs", number=True),
    Column("submitting", number=True),
    Column("matched since", number=True),
    Column("state"),
)
MATCHES = (Column("site"), Column("queue"), Column("rank", number=True), Column("not true"))


@app.callback(epilog="Example: pilotage sites")
def sites(context: typer.Context, json_output: Json = False) -> None:
    """Show sites with their advertised counts, their limits, and the jobs matched to them since."""
    if context.invoked_subcommand:
        return
    with connect() as client:
        records = client.sites()
    if json_output:
        show_json(records)
        return
    show(SITES, map(_row, records), "There are no sites; pilotage federation load FILE")


def _row(site: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        site["site"],
        site["source"] or "none",
        ago(site["advertised"]),
        _of(site["current_jobs"], site["max_jobs"]),
        _of(site["current_submitting_jobs"], site["max_submitting_jobs"]),
        "" if site["matched"] is None else site["matched"],
        site.get("restriction") or site["problem"] or _matching(site),
    )


def _matching(site: Mapping[str, Any]) -> str:
    hidden = site["counts_everybody"] is False
    return "matches; its batch system does not show other people's jobs" if hidden else "matches"


def _of(count: int | None, limit: int | None) -> str:
    text = "" if count is None else str(count)
    return text if limit is None else f"{text} of {limit}"


@app.command(epilog="Example: pilotage sites ad lab\n\nExample: pilotage sites ad lab --send lab.ad")
def ad(
    site: Annotated[str, typer.Argument(help="The site.")],
    send: Annotated[
        Path | None, typer.Option(help="A file with the ClassAd to advertise, with the site's token.")
    ] = None,
    forget: Annotated[
        bool, typer.Option(help="Forget what the site sent: its batch systems are read.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Print the ClassAd of a site as matching sees it, or advertise it."""
    if send is not None and forget:
        raise BadInput("--send and --forget do not go together; give one")
    with connect() as client:
        if send is not None:
            client.advertise(site, _read(send))
            done = "is advertised"
        elif forget:
            client.withdraw_advertisement(site)
            done = "is read from its batch systems again"
        else:
            document = client.advertisement(site)
            show_json(document) if json_output else typer.echo(document["ad"])
            return
    if json_output:
        show_json({"site": site, "done": done})
    else:
        echo(f"{site} {done}")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error


@app.command(epilog="Example: pilotage sites match 12")
def match(
    task: Task,
    json_output: Json = False,
) -> None:
    """Show which sites match a task's jobs by the ads of both, and what fails at the others."""
    with connect() as client:
        number = task_number(client, task)
        matches = client.matches(number)
    if json_output:
        show_json(matches)
        return
    rows = [
        (
            record["site"],
            record["queue"],
            "" if record["rank"] is None else f"{record['rank']:g}",
            "; ".join(f"{part['rule']} {part['name']} ({part['have']})" for part in record["refusals"]),
        )
        for record in matches
    ]
    show(MATCHES, rows, f"Task {number} has no jobs yet.")


add_verbs(app, "site")
