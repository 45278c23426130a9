"""Verbs on tasks under way and on single jobs: retry, hold, release, finish, cancel."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from .errors import BadInput, CommandFailure
from .output import Json, counts, echo, show_json

app = typer.Typer()

Tasks = Annotated[list[int], typer.Argument(help="Tasks by id.", metavar="TASK...")]
Subjects = Annotated[
    list[str], typer.Argument(help="Tasks by id, and jobs, for example job:345.", metavar="TASK|job:ID...")
]


@app.command(epilog="Example: pilotage retry 12, or one job of it: pilotage retry job:345")
def retry(
    subjects: Subjects,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be retried; of whole tasks.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Run jobs again that failed, were cancelled or closed. What is finished stays."""
    paths = _paths(subjects)
    if dry_run and any(path.startswith("/jobs") for path, _ in paths):
        raise BadInput("--dry-run is for whole tasks: pilotage explain job:ID says how a job stands")
    word = "would be retried" if dry_run else "retried"
    _each(paths, "retry", {"dry_run": True} if dry_run else None, _told(word), json_output)


@app.command(epilog="Example: pilotage hold 12")
def hold(tasks: Tasks, json_output: Json = False) -> None:
    """Start no more jobs of tasks until they are released. Jobs that run go on."""
    _each(_paths(tasks), "hold", None, _told("held"), json_output)


@app.command(epilog="Example: pilotage release 12")
def release(tasks: Tasks, json_output: Json = False) -> None:
    """Let jobs of held tasks start again."""
    _each(_paths(tasks), "release", None, _told("released"), json_output)


@app.command(epilog="Example: pilotage finish 12")
def finish(tasks: Tasks, json_output: Json = False) -> None:
    """End tasks with what they have: a merge takes what is there, other jobs are closed."""
    _each(_paths(tasks), "finish", None, _told("closed"), json_output)


@app.command(epilog="Example: pilotage cancel 12 13, or one job: pilotage cancel job:345")
def cancel(subjects: Subjects, json_output: Json = False) -> None:
    """Cancel tasks, with their jobs and transfers, or single jobs. Outputs that are stored stay."""
    _each(_paths(subjects), "cancel", None, lambda _: "", json_output)


def _paths(subjects: list[str] | list[int]) -> list[tuple[str, str]]:
    """The path of each subject, and what it is called."""
    found = []
    for subject in map(str, subjects):
        kind, colon, number = subject.rpartition(":")
        if not (number.isascii() and number.isdigit()) or (colon and kind not in ("task", "job")):
            raise BadInput(f"{subject!r} is no task's number, nor job: with one; give 12 or job:345")
        kind = kind or "task"
        found.append((f"/{kind}s/{number}", f"{kind} {number}"))
    return found


def _told(word: str) -> Callable[[Any], str]:
    def told(answer: Any) -> str:
        jobs = answer.get("jobs")
        if jobs is None:
            return ""
        many = sum(jobs.values())
        before = f" ({counts(jobs)} before)" if many else ""
        return f", {many} job{'' if many == 1 else 's'} {word}{before}"

    return told


def _each(
    paths: list[tuple[str, str]], verb: str, body: Any, told: Callable[[Any], str], json_output: bool
) -> None:
    """Do it to each; one that is refused leaves the others to do, a server that is away fails them all."""
    from .client import Client

    answers, failures = [], []
    with Client() as client:
        for path, name in paths:
            try:
                answer = client.send("POST", f"{path}/{verb}", body)
            except CommandFailure as failure:
                if failure.code != CommandFailure.code:
                    raise
                failures.append(str(failure))
                continue
            answers.append(answer)
            if not json_output:
                # A verb on a job answers with the job, which names its task by number.
                view = answer["task"] if path.startswith("/tasks") and verb != "cancel" else answer
                echo(f"{name} is {view['state']}{told(answer)}")
    if json_output:
        show_json({"done": answers, "refused": failures})
    if failures:
        raise CommandFailure("; ".join(failures))
