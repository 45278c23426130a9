"""Show who did what, and verify that no record was deleted or changed."""

import json
import time
from collections.abc import Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import After, Column, Json, Limit, echo, hint_next, show, show_json
from pilotage.model.values.durations import begin_of
from pilotage.model.values.phrases import moment, plural

if TYPE_CHECKING:
    from pilotage.client import Client

app = typer.Typer()

PAGE = 10_000
"""Records of one request where all are read."""

_RECORDS = (
    Column("number", number=True),
    Column("when"),
    Column("who"),
    Column("did"),
    Column("to"),
    Column("before", essential=False),
    Column("after", essential=False),
    Column("why", essential=False),
    Column("token", essential=False),
    Column("from", essential=False),
)


@app.command(epilog="Example: pilotage audit --since 7d --verb cancel\n\nExample: pilotage audit --verify")
def audit(
    since: Annotated[str, typer.Option(help="From when: 3d, or 2026-11-30.")] = "",
    until: Annotated[str, typer.Option(help="Until when, in the same forms.")] = "",
    person: Annotated[str, typer.Option(help="Only what this person did.")] = "",
    verb: Annotated[str, typer.Option(help="Only this verb, such as cancel.")] = "",
    record: Annotated[str, typer.Option(help='Only what was done to this record: "task 12".')] = "",
    limit: Limit = 100,
    after: After = "",
    lines: Annotated[
        bool,
        typer.Option(
            "--lines", help="Print all as JSON lines, oldest first; --after goes on after a number."
        ),
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify that no record was deleted or changed.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Show who did what: you, and others to your tasks and files; for an operator everybody.

    Records are kept for PILOTAGE_AUDIT_KEPT days.
    """
    words = {"person": person, "verb": verb, "record": record}
    query: Mapping[str, Any] = {
        **words,
        "since": _moment("--since", since),
        "until": _moment("--until", until),
    }
    with connect() as client:
        if verify:
            _verify(client, json_output)
        elif lines:
            _show_lines(client, query, after)
        else:
            _show(client.audit(**query, after=after or None, limit=limit), json_output)


def _moment(option: str, text: str) -> float | None:
    try:
        return begin_of(text, time.time(), UTC) if text else None
    except ValueError as error:
        raise BadInput(f"{option} {text}: {error}") from None


def _show_lines(client: "Client", query: Mapping[str, Any], after: str) -> None:
    while True:
        page = client.audit(**query, after=after or None, limit=PAGE, oldest_first=True)
        for row in page:
            typer.echo(json.dumps(row.to_dict(), separators=(",", ":")))
        if not (after := page.next):
            return


def _show(page: Any, json_output: bool) -> None:
    if json_output:
        show_json(page)
        return
    show(_RECORDS, map(_row, page), "There is no record.")
    hint_next(page, "record")


def _row(record: Any) -> tuple[object, ...]:
    role = f" ({record['role']})" if record["role"] else ""
    person = f"{record['person']}{role}" or "–"
    times = f" ({record['times']} times)" if record["times"] > 1 else ""
    return (
        record["id"],
        moment(record["time"]),
        person,
        f"{record['verb']}{times}",
        record["record"],
        _details(record["before"]),
        _details(record["after"]),
        record["why"],
        record["token"],
        record["address"],
    )


def _details(details: Mapping[str, object]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in details.items())


def _verify(client: "Client", json_output: bool) -> None:
    after, records, faults, last = 0, 0, [], ""
    while True:
        check = client.audit_check(after=after, limit=PAGE)
        records, last = records + check["records"], check["hash"]
        faults += check["faults"]
        if not (after := check["next"]):
            break
    if json_output:
        show_json({"records": records, "hash": last, "faults": faults})
    else:
        for fault in faults:
            echo(f"record {fault['record']}: {fault['text']}")
        echo(f"{plural(records, 'record')} verified; the last hash is {last or 'none'}")
    if faults:
        raise CommandFailure(f"the audit has {plural(len(faults), 'fault')}")
