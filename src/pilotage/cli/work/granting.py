"""Let others read tasks, workflows and datasets."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput
from pilotage.cli.terminal.output import After, Column, Json, Limit, echo, hint_next, show, show_json
from pilotage.cli.terminal.subjects import work_of
from pilotage.model.rules.verbs import GRANT, REVOKE
from pilotage.model.values.durations import end_of
from pilotage.model.values.phrases import moment

if TYPE_CHECKING:
    from pilotage.client import Client

app = typer.Typer()

GRANTS = (Column("what"), Column("of"), Column("reader"), Column("may"), Column("until"))

Subject = Annotated[
    str,
    typer.Argument(
        help="A task or a workflow by number or name, dataset:NAME, or group:NAME for all work in a group.",
        metavar="TASK|WORKFLOW|DATASET|GROUP",
    ),
]
Reader = Annotated[str, typer.Argument(help="A person, or group:NAME.", metavar="PERSON|GROUP")]
Vo = Annotated[str | None, typer.Option(help="The VO of the person or group, if it is not yours.")]


@app.command(help=GRANT.help, epilog=f"Example: {GRANT.example}")
def grant(
    subject: Subject,
    reader: Reader,
    until: Annotated[
        str, typer.Option(metavar="TIME", help="2h, 30d, or a time: it ends by itself then.")
    ] = "",
    manage: Annotated[bool, typer.Option("--manage", help="They may also change it, as its owner.")] = False,
    vo: Vo = None,
    json_output: Json = False,
) -> None:
    end = _time(until) if until else None
    with connect() as client:
        given = client.grant(_named(client, subject), reader, vo=vo, until=end, manages=manage)
    if json_output:
        show_json(given)
    else:
        echo(f"{_reader(given)} may {_may(given)} {_what(given)}, {_until(given)}")


@app.command(help=REVOKE.help, epilog=f"Example: {REVOKE.example}")
def revoke(subject: Subject, reader: Reader, vo: Vo = None, json_output: Json = False) -> None:
    with connect() as client:
        ended = client.revoke(_named(client, subject), reader, vo=vo)
    if json_output:
        show_json(ended)
    else:
        echo(f"revoked: {_reader(ended)} may not read {_what(ended)} by this grant")


@app.command(epilog="Example: pilotage grants")
def grants(limit: Limit = 50, after: After = "", json_output: Json = False) -> None:
    """List the readers of your work, and what you may read. An operator sees everybody's grants."""
    with connect() as client:
        page = client.grants(limit=limit, after=after or None)
    if json_output:
        show_json(page)
        return
    rows = [(_what(grant), grant["by"], _reader(grant), _may(grant), _until(grant)) for grant in page]
    show(GRANTS, rows, "There are no grants. To let bob read task 12: pilotage grant 12 bob")
    hint_next(page, "grant")


def _named(client: "Client", subject: str) -> str:
    """Return the same as the client names it."""
    if subject.startswith(("dataset:", "group:")):
        return subject
    work = work_of(client, subject)
    return f"{work.kind}:{work.number}"


def _reader(grant: Any) -> str:
    name = grant["person"] or f"group:{grant['group']}"
    return f"{name} of {grant['vo']}" if grant["vo"] else str(name)


def _may(grant: Any) -> str:
    return "change" if grant["manages"] else "read"


def _what(grant: Any) -> str:
    return f"{grant['kind']} {grant['record']}"


def _until(grant: Any) -> str:
    return "until it is revoked" if grant["until"] is None else f"until {moment(grant['until'])}"


def _time(text: str) -> float:
    try:
        return end_of(text, time.time())
    except ValueError as error:
        raise BadInput(f"--until {text}: {error}") from None
