"""What the jobs of a task wrote: head and tail of each log, or the lines with a text."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilotage.cli.configuration import connect
from pilotage.cli.errors import CommandFailure
from pilotage.cli.terminal.layout import visible
from pilotage.cli.terminal.output import console, echo, show_json
from pilotage.cli.terminal.states import state_of_job
from pilotage.cli.terminal.subjects import tasks_of, work_of
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.client import Client

AT_ONCE = 100
"""Jobs of one request for logs."""

_NO_LOG = {
    **dict.fromkeys(
        ("throttled", "pending", "defined", "held", "assigned", "activated"), "This attempt has not started."
    ),
    **dict.fromkeys(("sent", "starting"), "Its pilot prepares it."),
    "running": "It runs; its pilot sends the output at its next call.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChoice:
    """Which logs are shown, and how much of each."""

    failed: bool
    match: str
    lines: int
    limit: int


def show_logs(subject: str, choice: LogChoice, json_output: bool) -> None:
    """Print excerpts of the logs of a task's jobs, or of each task of a workflow.

    Raises CommandFailure if there is nothing.
    """
    excerpts: list[Any] = []
    more = False
    with connect() as client:
        work = work_of(client, subject)
        tasks = tasks_of(client, work) if work.kind == "workflow" else [{"id": work.number}]
        for task in tasks:
            title = f"task {task['id']} {task['name']}" if work.kind == "workflow" else ""
            found, has_more = _of_task(client, task["id"], choice, None if json_output else title)
            excerpts += found
            more = more or has_more
    if json_output:
        show_json({"jobs": excerpts})
    elif excerpts and more:
        echo(f"{plural(len(excerpts), 'job')} shown; of more jobs: --limit {choice.limit * 10}")
    if not excerpts:
        kind = "failed job" if choice.failed else "job"
        wrote = f" wrote {choice.match!r} into a log that is kept" if choice.match else " is there"
        raise CommandFailure(f"no {kind} of {work.kind} {work.number}{wrote}")


def _of_task(client: "Client", task: int, choice: LogChoice, title: str | None) -> tuple[list[Any], bool]:
    """Return excerpts of the logs of a task's jobs, and whether there are more jobs.

    Print them, below the ``title``; None: print nothing.
    """
    excerpts: list[Any] = []
    after: str | None = ""
    while after is not None and len(excerpts) < choice.limit:
        left = choice.limit - len(excerpts)
        answer = client.task_logs(
            task,
            failed=choice.failed,
            match=choice.match or None,
            lines=choice.lines,
            limit=AT_ONCE if choice.match else min(AT_ONCE, left),
            after=after or None,
        )
        page, after = answer["jobs"][:left], answer["next"] or None
        if page and title and not excerpts:
            console().print(f"==== {visible(title)} ====", style="bold")
        excerpts += page
        for excerpt in () if title is None else page:
            _show(excerpt, choice.match)
    return excerpts, after is not None


def _show(excerpt: Any, match: str) -> None:
    job = excerpt["job"]
    title = f"job:{job['id']}, attempt {excerpt['attempt']}, {state_of_job(job)}"
    title += f" at {job['queue']}" if job["queue"] else ""
    title += f": {job['reason']}" if job["reason"] and not match else ""
    console().print(f"== {visible(title)} ==", style="bold")
    for log in excerpt["logs"]:
        _show_log(log, match)
    if not excerpt["logs"]:
        echo(_NO_LOG.get(job["state"], "It wrote nothing, or its log is deleted."))


def _show_log(log: Any, match: str) -> None:
    before = f"{log['stream']}: "
    for line in log["head"]:
        _type(before + line)
    if log["left_out"] and match:
        _type(f"{before}[and {plural(log['left_out'], 'more line')} with it]")
    elif log["left_out"] or log["lost"]:
        lost = f", and {log['lost']:,} bytes that are not kept" if log["lost"] else ""
        _type(f"{before}[{plural(log['left_out'], 'line')} between{lost}]")
    for line in log["tail"]:
        _type(before + line)


def _type(line: str) -> None:
    """Print a line of a log, never folded, without what terminals obey."""
    console().print(visible(line), overflow="ignore", no_wrap=True, crop=False)
