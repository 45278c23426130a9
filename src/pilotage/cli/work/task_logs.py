"""What the jobs of a task wrote: head and tail of each log, or the lines with a text."""

from typing import Any

from pilotage.cli.configuration import connect
from pilotage.cli.errors import CommandFailure
from pilotage.cli.terminal.layout import visible
from pilotage.cli.terminal.output import console, echo, show_json
from pilotage.cli.terminal.subjects import task_number
from pilotage.model.values.phrases import plural

AT_ONCE = 100
"""Jobs of one request for logs."""

_NO_LOG = {
    **dict.fromkeys(
        ("throttled", "pending", "defined", "held", "assigned", "activated"), "This attempt has not started."
    ),
    **dict.fromkeys(("sent", "starting"), "Its pilot prepares it."),
    "running": "It runs; its pilot sends the output at its next call.",
}


def show_logs(subject: str, failed: bool, match: str, lines: int, limit: int, json_output: bool) -> None:
    """Print excerpts of the logs of at most ``most`` jobs. Raises CommandFailure if there is nothing."""
    excerpts: list[Any] = []
    after: str | None = ""
    with connect() as client:
        task = task_number(client, subject)
        while after is not None and len(excerpts) < limit:
            answer = client.task_logs(
                task,
                failed=failed,
                match=match or None,
                lines=lines,
                limit=AT_ONCE if match else min(AT_ONCE, limit - len(excerpts)),
                after=after or None,
            )
            page, after = answer["jobs"][: limit - len(excerpts)], answer["next"] or None
            excerpts += page
            for excerpt in () if json_output else page:
                _show(excerpt, match)
    if json_output:
        show_json({"jobs": excerpts})
    elif excerpts and after is not None:
        echo(f"{plural(len(excerpts), 'job')} shown; of more jobs: --limit {limit * 10}")
    if not excerpts:
        kind = "failed job" if failed else "job"
        wrote = f" wrote {match!r} into a log that is kept" if match else " is there"
        raise CommandFailure(f"no {kind} of task {task}{wrote}")


def _show(excerpt: Any, match: str) -> None:
    job = excerpt["job"]
    title = f"job:{job['id']}, attempt {excerpt['attempt']}, {job['state']}"
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
