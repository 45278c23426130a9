"""Circuit breakers: places that fail again and again, and how to lift them."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.terminal.output import After, Column, Json, Limit, echo, hint_next, show, show_json

app = typer.Typer(help="Show circuit breakers that have tripped, and lift them.", invoke_without_command=True)

BREAKERS = (
    Column("kind"),
    Column("holds back"),
    Column("state"),
    Column("since", essential=False),
    Column("until"),
    Column("why"),
)


@app.callback(epilog="Example: pilotage breakers\n\nExample: pilotage breakers lift north-disk")
def breakers(
    context: typer.Context, limit: Limit = 1000, after: After = "", json_output: Json = False
) -> None:
    """Show the circuit breakers that have tripped: why, until when, and which work waits.

    While one is open nothing goes there. Once it is half-open a single pilot, job, delivery or question
    probes the place: the breaker closes where that does well, else it opens for longer.

    Below are the records that a step has set aside because it fails at them.
    """
    if context.invoked_subcommand:
        return
    from pilotage.client import RemarkRecord
    from pilotage.explain.remarks import sentence
    from pilotage.model.values.phrases import moment

    with connect() as client:
        page = client.breakers(after=after or None, limit=limit)
    if json_output:
        show_json(page)
        return
    rows = [
        (
            breaker["kind"],
            breaker["what"],
            breaker["state"],
            moment(breaker["since"]),
            until(breaker),
            breaker["reason"],
        )
        for breaker in page
    ]
    show(BREAKERS, rows, "No circuit breaker has tripped.")
    hint_next(page, "circuit breaker")
    for remark in map(RemarkRecord, page.document.get("set_aside", ())):
        echo(f"{remark.subject}: {sentence(remark)}")


@app.command(
    epilog="Example: pilotage breakers lift north-disk\n\nExample: pilotage breakers lift node17 --kind node"
)
def lift(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A storage, queue, node or server.")],
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="Only breakers of this kind: server, list-match, empty-pilots, queue, node or storage.",
        ),
    ] = "",
    json_output: Json = False,
) -> None:
    """Close the circuit breakers of a storage, queue, node or server: work goes there again. For operators.

    Earlier failures there do not count. The name of a queue also lifts the breakers of its servers and nodes.
    """
    with connect() as client:
        document = client.lift_breakers(name, kind=kind or None)
    if json_output:
        show_json(document)
        return
    for breaker in document["lifted"]:
        echo(f"lifted: {breaker['what']}")
    if not document["lifted"]:
        echo(f"no circuit breaker of {name} has tripped")


def until(breaker: Mapping[str, Any]) -> str:
    """Tell when a breaker is half-open, or what probes the place next."""
    from pilotage.model.values.phrases import moment

    return f"{breaker['probe']} probes next" if breaker["state"] == "half-open" else moment(breaker["until"])


def summary(breakers: Iterable[Mapping[str, Any]]) -> str:
    """Describe the breakers of one queue or storage: their states, until when and why."""
    return "; ".join(
        f"{breaker['what']}: {breaker['state']}, {until(breaker)}: {breaker['reason']}"
        for breaker in breakers
    )
