"""Show logs of attempts and pilots on the terminal."""

import sys
import time
from typing import Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.layout import visible
from pilotage.cli.terminal.output import Json, show_json

app = typer.Typer()
FOLLOW_EVERY = 2.0
"""Seconds between two requests for a followed log."""


Failed = Annotated[bool, typer.Option("--failed", help="Of a task: head and tail of each failed job's log.")]
Match = Annotated[str, typer.Option(help="Of a task: only the lines that contain this text.")]
Lines = Annotated[int, typer.Option(min=1, max=200, help="Of a task: lines of head and of tail.")]
Limit = Annotated[int, typer.Option(min=1, max=100_000, help="Of a task: how many jobs at most.")]


@app.command(
    epilog="Example: pilotage logs job:345 --follow, or of all failed jobs of a task: "
    "pilotage logs 12 --failed, or matching lines: pilotage logs 12 --match Traceback"
)
def logs(
    subject: Annotated[
        str,
        typer.Argument(metavar="job:ID|pilot:ID|TASK|WORKFLOW", help="A job, a pilot, a task or a workflow."),
    ],
    attempt: Annotated[
        int | None, typer.Option(min=1, help="An attempt of the job; without it, the latest.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the attempt, or the pilot, has ended.")
    ] = False,
    failed: Failed = False,
    match: Match = "",
    lines: Lines = 10,
    limit: Limit = 20,
    json_output: Json = False,
) -> None:
    """Show the output of a payload, of a pilot's agent, or of a task's jobs: both ends of long logs.

    A running payload's output arrives with its pilot's next report, then every few seconds while a person
    reads. Characters that would control the terminal appear as escapes.
    """
    if not subject.lower().startswith(("job:", "pilot:")):
        from pilotage.cli.work import task_logs

        if attempt or follow:
            raise BadInput("--attempt and --follow are for one job; for example: pilotage logs job:345")
        choice = task_logs.LogChoice(failed=failed, match=match, lines=lines, limit=limit)
        task_logs.show_logs(subject, choice, json_output)
        return
    if failed or match:
        raise BadInput("--failed and --match are for a task; for example: pilotage logs 12 --failed")
    _show_one(subject, attempt, follow, json_output)


def _show_one(subject: str, attempt: int | None, follow: bool, json_output: bool) -> None:
    named = _canonical(subject, attempt)
    printer = _Printer(subject)
    with connect() as client:
        while True:
            document = client.logs(named, attempt=attempt, **printer.printed)
            if not json_output:
                printer.show(document)
            if not (follow and document["runs"]):
                break
            attempt = document["attempt"] or None
            time.sleep(FOLLOW_EVERY)
    if json_output:
        show_json(document)
    else:
        printer.end()
    if not any(log["parts"] for log in document["logs"]) and not printer.printed:
        raise CommandFailure(_nothing(subject, document, follow))


def _canonical(subject: str, attempt: int | None) -> str:
    kind, _, number = subject.partition(":")
    if kind.lower() not in ("job", "pilot") or not (number.isascii() and number.isdigit()):
        raise BadInput(f"{subject!r} is neither job: nor pilot: and a number; give for example job:345")
    if attempt and kind.lower() == "pilot":
        raise BadInput("--attempt is for jobs: a pilot has one log")
    return f"{kind.lower()}:{number}"


class _Printer:
    """Prints the new parts of logs. ``printed`` counts the printed bytes of each stream for the API."""

    def __init__(self, subject: str) -> None:
        self.printed: dict[str, int] = {}
        self._subject = subject
        self._stream = ""
        self._last = "\n"

    def show(self, document: Any) -> None:
        """Print the parts of each stream, under its name if that differs from the last one."""
        for log in document["logs"]:
            name = f"{log['stream']}_seen"
            for part in log["parts"]:
                self._head(log, document["attempt"])
                left_out = part["start"] - self.printed.get(name, 0)
                if left_out > 0:
                    self._line(f"[{left_out:,} bytes are not kept]")
                self._write(visible(part["text"]))
                self.printed[name] = part["end"]
        sys.stdout.flush()

    def _head(self, log: Any, attempt: int) -> None:
        if self._stream == log["stream"]:
            return
        self._stream = log["stream"]
        of = f"{self._subject}, attempt {attempt}" if attempt else self._subject
        self._line(visible(f"== {log['stream']} of {of}: {log['size']:,} bytes =="))

    def _line(self, text: str) -> None:
        """Print a line of our own, starting on a new line."""
        self._write(("" if self._last == "\n" else "\n") + text + "\n")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        self._last = text[-1:] or self._last

    def end(self) -> None:
        """End the current line."""
        self._write("" if self._last == "\n" else "\n")


def _nothing(subject: str, document: Any, follow: bool) -> str:
    if document["runs"] and not follow:
        return f"nothing of {subject} is there yet; its pilot will send it: look again, or --follow"
    attempts = ", ".join(str(number) for number in document["attempts"])
    hint = f"; there is something of attempt {attempts}" if attempts else ""
    return f"{subject} wrote nothing, has not begun, or its logs are deleted{hint}"
