"""Print the server's reasons why jobs wait or where they went."""

from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput
from pilotage.cli.terminal.output import Json, echo, show_json, show_lines, width
from pilotage.cli.terminal.subjects import KINDS, work_of
from pilotage.cli.terminal.what_if_options import WhatIfs, parsed

if TYPE_CHECKING:
    from pilotage.client import Client, Record
    from pilotage.client.subjects import RequestSubject

app = typer.Typer()


@app.command(
    epilog="Example: pilotage explain 12, of a job: pilotage explain --job 345, or with a change: "
    "pilotage explain 12 --what-if memory=12000"
)
def explain(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK|WORKFLOW|job:ID|pilot:ID|transfer:ID|queue:NAME",
            help="A task or workflow, or for example job:345, pilot:6, transfer:17, queue:north.",
        ),
    ] = None,
    job: Annotated[int | None, typer.Option(help="A job.")] = None,
    queue: Annotated[
        str | None, typer.Option(help="A queue: everything about it, and a task's jobs there.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many decisions at most.")] = 5,
    what_if: WhatIfs = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="Show the numbers of the published rules that decided.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Say why jobs wait or where they went, newest decision first; or where they would go."""
    if rules and what_if:
        raise BadInput("--rules shows no numbers beside --what-if; --json has them")
    if queue is not None and what_if:
        raise BadInput("--what-if asks about a task or a job; leave out --queue")
    with connect() as client:
        subject = _subject(client, task, job, queue)
        answer: Record
        if what_if and subject.kind not in ("task", "job"):
            raise BadInput("--what-if asks about a task or a job")
        if what_if:
            answer = client.what_if(subject, **parsed(what_if), width=width())
        else:
            named = queue if subject.kind != "queue" else None
            answer = client.explain(subject, queue=named, limit=limit, rules=rules)
    if json_output:
        show_json(answer)
    else:
        _show_text(answer, 0 if what_if else limit)


def _show_text(answer: "Record", limit: int) -> None:
    """Print the lines of an answer, and whether ``limit`` left decisions out; 0: nothing did."""
    from pilotage.explain.layout import folded

    show_lines(folded(answer["lines"], width()))
    if limit and len(answer.get("choices", ())) == limit:
        echo(f"newest decisions are shown, at most {limit}; older ones too: --limit")


def _subject(client: "Client", task: str | None, job: int | None, queue: str | None) -> "RequestSubject":
    from pilotage.client.subjects import RequestSubject

    if queue is not None and task is None and job is None:
        return RequestSubject("queue", queue)
    if (task is None) == (job is None):
        raise BadInput("name a task, or a job with --job; for example: pilotage explain 12")
    if job is not None:
        subject = RequestSubject("job", job)
    elif str(task).partition(":")[0].lower() in KINDS:
        subject = client.subject(str(task))
    else:
        work = work_of(client, str(task))
        subject = RequestSubject(work.kind, work.number)
    if queue is not None and subject.kind != "task":
        raise BadInput("--queue goes with a task, or alone; for example: pilotage explain 12 --queue NAME")
    return subject
