"""Why jobs went where they went, or nowhere: stored decisions as text."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from .errors import BadInput
from .hypotheses import WhatIfs, parsed, show_side_by_side
from .output import Json, show_json

app = typer.Typer()


@app.command(
    epilog="Example: pilotage explain 12, of a job: pilotage explain --job 345, or with a change: "
    "pilotage explain 12 --what-if memory=12000"
)
def explain(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK|job:ID", help="A task, or a job as job:345.")
    ] = None,
    job: Annotated[int | None, typer.Option(help="A job.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many decisions at most.")] = 5,
    what_if: WhatIfs = None,
    json_output: Json = False,
) -> None:
    """Say why jobs wait or went where they went, newest decision first; or where they would go."""
    from .client import Client

    kind, number = _subject(task, job)
    if what_if:
        _show_what_if(f"/{kind}/{number}/what-if", parsed(what_if), json_output)
        return
    with Client() as client:
        if kind == "tasks":
            about = client.get(f"/tasks/{number}")
            choices = client.get(f"/tasks/{number}/explain", limit=limit)["choices"]
        else:
            about = client.get(f"/jobs/{number}")
            choices = client.get(f"/jobs/{number}/explain")["choices"][:limit]
    if json_output:
        show_json({kind[:-1]: about, "choices": choices, "explanations": explanations(choices)})
        return
    for line in _job_lines(about) if kind == "jobs" else []:
        typer.echo(line)
    for line in _choice_lines(choices):
        typer.echo(line)
    if not choices:
        typer.echo(f"{kind[:-1]} {number} is {about['state']}: no brokerage has decided about it yet")


def _show_what_if(path: str, changes: dict[str, Any], json_output: bool) -> None:
    from pilotage.explain import choices as explain
    from pilotage.flow.calls.what_if import WhatIf
    from pilotage.model.documents import from_document

    from .client import Client

    with Client() as client:
        answer = client.send("POST", path, changes)
    if json_output:
        told = {when: explanations(answer[when]) for when in ("before", "after")}
        show_json({**answer, "explanations": told})
        return
    found = from_document(WhatIf, answer)
    show_side_by_side(found)
    for choice in found.after:
        for line in explain.lines(explain.explain(choice), f"of {_moment(found.time)}, changed"):
            typer.echo(line)


def _subject(task: str | None, job: int | None) -> tuple[str, int]:
    if (task is None) == (job is None):
        raise BadInput("name a task, or a job with --job; for example: pilotage explain 12")
    if job is not None:
        return "jobs", job
    kind, colon, number = str(task).rpartition(":")
    if not number.isascii() or not number.isdigit() or (colon and kind.lower() not in ("job", "task")):
        raise BadInput(
            f"{task!r} is neither a task's number nor job: and a job's; give for example 12 or job:345"
        )
    return "jobs" if kind.lower() == "job" else "tasks", int(number)


def explanations(choices: Iterable[dict[str, Any]]) -> list[Any]:
    """The choices' explanations as documents."""
    from pilotage.explain import choices as explain
    from pilotage.model.decision import Choice
    from pilotage.model.documents import from_document, to_document

    return [to_document(explain.explain(from_document(Choice, choice))) for choice in choices]


def _choice_lines(choices: Sequence[dict[str, Any]]) -> Iterable[str]:
    """What was decided, decisions that differ in their jobs only as one."""
    from pilotage.explain import choices as explain
    from pilotage.model.decision import Choice
    from pilotage.model.documents import from_document

    read = [from_document(Choice, choice) for choice in choices]
    moments = {id(choice): document["time"] for choice, document in zip(read, choices, strict=True)}
    for group in explain.alike(read):
        whole = replace(group[0], jobs=tuple(job for choice in group for job in choice.jobs))
        first, last = (_moment(pick(moments[id(choice)] for choice in group)) for pick in (min, max))
        when = f"of {first}" if first == last else f"of {first} to {last}"
        yield from explain.lines(explain.explain(whole), when, decisions=len(group))


def _job_lines(job: dict[str, Any]) -> Iterable[str]:
    """What happened to a job, oldest first."""
    where = f" at {job['queue']}" if job["queue"] else ""
    yield f"job {job['id']} of task {job['task']}: {job['state']}{where}, attempt {job['attempt']}"
    for event in job["events"]:
        change = f"{event['source']} to {event['target']}" if event["source"] else event["target"]
        yield f"  {_moment(event['time'])}  {change}: {event['cause']}"
    if job["error"]:
        yield f"  error: {job['error']}"


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
