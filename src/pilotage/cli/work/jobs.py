"""The jobs of a task, one a line, after a table of their failures."""

from collections.abc import Sequence, Set
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.terminal.output import (
    After,
    Column,
    Json,
    Limit,
    echo,
    hint_next,
    one_line,
    show,
    show_json,
    span,
)
from pilotage.cli.terminal.states import JobStateName, Verbose, state_of_job, state_query
from pilotage.cli.terminal.subjects import Task, task_numbers

if TYPE_CHECKING:
    from pilotage.client import Client
    from pilotage.client.records import Table

app = typer.Typer()

GROUPS = (
    Column("error"),
    Column("queue"),
    Column("exit", number=True),
    Column("failed", number=True),
    Column("retried", number=True),
    Column("example"),
)
MOST_GROUPS = 10
"""Most groups of failures that are shown."""


class Sort(StrEnum):
    """What jobs are sorted by."""

    ID = "id"
    WAIT = "wait"
    RUN = "run"
    MEMORY = "memory"
    ATTEMPT = "attempt"
    SINCE = "since"
    EXIT = "exit"
    QUEUE = "queue"
    STATE = "state"


Failed = Annotated[
    bool, typer.Option("--failed", help="Only jobs that failed, or are tried again after that.")
]
State = Annotated[
    JobStateName | None,
    typer.Option(help="Only waiting, running, finishing, done, failed or cancelled jobs.", metavar="STATE"),
]
SortBy = Annotated[
    Sort, typer.Option(help="The column to sort by: numbers from the largest down, words upwards.")
]


@app.command(epilog="Example: pilotage jobs 12 --failed, or the longest: pilotage jobs 12 --sort run")
def jobs(
    task: Task,
    failed: Failed = False,
    state: State = None,
    sort: SortBy = Sort.ID,
    limit: Limit = 50,
    after: After = "",
    verbose: Verbose = False,
    json_output: Json = False,
) -> None:
    """List a task's jobs: where they are, how long they wait and run, and how they failed.

    Failures come first, by error and queue: how many jobs failed for good, how many are retried, and an
    example. A failure of one job in the list has only its line there. The error of a job is the last line of
    its payload, else the first.
    """
    options: dict[str, Any] = {
        "failed": failed,
        **state_query(state),
        "sort": sort.value,
        "limit": limit,
        "after": after or None,
        "parameters": True,
    }
    with connect() as client:
        answers = [_read(client, number, options) for number in task_numbers(client, [task])]
    if json_output:
        documents = [_document(*answer) for answer in answers]
        show_json({"tasks": documents} if len(documents) > 1 else documents[0])
        return
    for answer in answers:
        if len(answers) > 1:
            echo(f"task {answer[0]}:")
        _show(*answer, failed, state, sort, verbose)


def _read(client: "Client", number: int, options: dict[str, Any]) -> tuple[int, Any, "Table[Any]"]:
    return number, client.failures(number), client.jobs(number, **options)


def _document(number: int, failures: Any, page: "Table[Any]") -> dict[str, Any]:
    return {"task": number, "failures": failures, **page.to_dict()}


def _show(
    number: int,
    failures: Any,
    page: "Table[Any]",
    failed: bool,
    state: str | None,
    sort: Sort,
    verbose: bool,
) -> None:
    _show_failures(failures, {job["id"] for job in page})
    kind = "failed " if failed else ""
    nothing = f"No {kind}job is there" + (f" that is {state}." if state else ".")
    show(*_table(page, sort, verbose), nothing)
    hint_next(page, "job")
    if failures["groups"]:
        echo(f"their logs: pilotage logs {number} --failed; to run them again: pilotage retry {number}")


def _show_failures(failures: Any, listed: Set[int]) -> None:
    """Show groups of failed jobs; leave out a single job that is ``listed`` below with the same words."""
    groups = [
        group
        for group in failures["groups"]
        if group["failed"] + group["retried"] > 1 or group["example"] not in listed
    ]
    if not groups:
        return
    rows = [
        (
            one_line(group["error"], 100),
            group["queue"],
            group["exit_code"],
            group["failed"] or "",
            group["retried"] or "",
            f"job:{group['example']}",
        )
        for group in groups[:MOST_GROUPS]
    ]
    show(GROUPS, rows, "")
    rest = failures["left_out"] + sum(group["failed"] + group["retried"] for group in groups[MOST_GROUPS:])
    if rest:
        echo(f"and {rest} jobs with other errors")
    echo("")


def _table(
    rows: Sequence[Any], sort: Sort, verbose: bool
) -> tuple[tuple[Column, ...], list[tuple[object, ...]]]:
    """Return columns and rows. What no job has gets no column."""
    columns: list[tuple[Column, Any]] = [
        (Column("job", number=True), lambda job: job["id"]),
        (Column("index", number=True), lambda job: job.get("index")),
        (Column("parameters", essential=False), lambda job: _parameters(job.get("parameters"))),
        (Column("queue"), lambda job: job["queue"]),
        (Column("state"), lambda job: state_of_job(job, verbose)),
        (Column("try", number=True), lambda job: job["attempt"]),
        (Column("wait", number=True), lambda job: span(job["wait"])),
        (Column("run", number=True), lambda job: span(job["run"])),
        (Column("memory", number=True), lambda job: _memory(job["max_rss"]) if sort is Sort.MEMORY else ""),
        (Column("exit", number=True), lambda job: job["exit_code"]),
        (Column("error", essential=False), lambda job: one_line(job["reason"], 120)),
    ]
    cells = [(column, [value(job) for job in rows]) for column, value in columns]
    filled = [
        (column, values) for column, values in cells if any(value not in ("", None) for value in values)
    ]
    return tuple(column for column, _ in filled), list(zip(*(values for _, values in filled), strict=True))


def _memory(peak: float | None) -> str:
    return "" if peak is None else f"{peak:.0f} MB"


def _parameters(values: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in (values or {}).items())
