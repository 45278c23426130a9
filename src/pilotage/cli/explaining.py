"""Print the server's reasons why jobs wait or where they went."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import BadInput
from .output import Json, show_json, show_lines, width
from .subjects import KINDS, number_of, work_of
from .what_if_options import WhatIfs, parsed

if TYPE_CHECKING:
    from .client import Client

app = typer.Typer()


@app.command(
    epilog="Example: pilotage explain 12, of a job: pilotage explain --job 345, or with a change: "
    "pilotage explain 12 --what-if memory=12000"
)
def explain(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK|WORKFLOW|job:ID|pilot:ID|transfer:ID",
            help="A task or workflow, or for example job:345, pilot:6, transfer:17.",
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
    from .client import Client

    if rules and what_if:
        raise BadInput("--rules shows no numbers beside --what-if; --json has them")
    if queue is not None and what_if:
        raise BadInput("--what-if asks about a task or a job; leave out --queue")
    with Client() as client:
        path = _path(client, task, job, queue)
        is_decided = path.startswith(("/tasks", "/jobs"))
        if what_if and not is_decided:
            raise BadInput("--what-if asks about a task or a job")
        if what_if:
            answer = client.send("POST", f"{path}/what-if", parsed(what_if), {"width": width()})
        else:
            most = {"limit": limit} if is_decided and queue is None else {}
            answer = client.get(f"{path}/explain", **most)
    if json_output:
        show_json(answer)
    else:
        show_lines(answer["lines"] if what_if else _told(answer["lines"], rules))


def _told(lines: Iterable[str], rules: bool) -> list[str]:
    """Return an explanation's lines, folded to the terminal after the numbers of rules are taken out."""
    from pilotage.explain.layout import folded
    from pilotage.explain.words import without_rules

    return folded(lines if rules else map(without_rules, lines), width())


def _path(client: "Client", task: str | None, job: int | None, queue: str | None) -> str:
    if queue is not None:
        from urllib.parse import quote

        named = f"/queues/{quote(queue, safe='')}"
        if task is None and job is None:
            return named
        kind, number = _subject(client, task, job)
        if kind != "tasks":
            raise BadInput(
                "--queue goes with a task, or alone; for example: pilotage explain 12 --queue NAME"
            )
        return f"/tasks/{number}{named}"
    kind, number = _subject(client, task, job)
    return f"/{kind}/{number}"


def _subject(client: "Client", task: str | None, job: int | None) -> tuple[str, int]:
    if (task is None) == (job is None):
        raise BadInput("name a task, or a job with --job; for example: pilotage explain 12")
    if job is not None:
        return "jobs", job
    kind, colon, number = str(task).rpartition(":")
    if colon and kind.lower() in KINDS:
        if number_of(number) is None:
            raise BadInput(f"{task!r} is no number of a {kind.lower()}; give for example {kind.lower()}:345")
        return f"{kind.lower()}s", int(number)
    work = work_of(client, str(task))
    return f"{work.kind}s", work.number
