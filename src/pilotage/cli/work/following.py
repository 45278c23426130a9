"""Follow tasks to their end, with a live view on terminals and plain lines elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from pilotage.cli.errors import CommandFailure, Detached, StillUnderWay
from pilotage.cli.terminal.layout import visible
from pilotage.cli.terminal.output import Column, console, counts, echo, is_terminal, table
from pilotage.cli.terminal.states import clause_of_task, line_of_task, word_of_task
from pilotage.model.records.states import ENDED, TaskState
from pilotage.model.rules.plain_states import word_counts
from pilotage.model.values.error_lines import in_short, is_long

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from pilotage.client import Client

KINDS = ("task", "job")
"""Kinds of records in a table of tasks: it follows their changes."""

WAITS = ("held", "blocked", "fault", "wait")
"""Kinds of remarks that say what a task waits for."""

MOST_NAMED = 20
"""Most tasks that a hint names."""


def follow(
    client: "Client",
    tasks: list[int],
    is_shown: bool,
    *,
    is_any: bool = False,
    timeout: float | None = None,
    stderr: bool = False,
) -> list[Mapping[str, Any]]:
    """Wait until all tasks have ended, or one with ``is_any``. Return their views in the given order.

    Raises ``StillUnderWay`` after ``timeout`` s, and ``Detached`` where the user interrupts.
    """
    from pilotage import client as failures

    progress = bars(console(stderr)) if is_shown and is_terminal(stderr) else None
    display = TaskDisplay(progress, in_lines=is_shown and not progress, stderr=stderr)
    try:
        with progress or nullcontext():
            for task in client.follow(tasks, timeout=timeout, is_any=is_any):
                display.update(task)
    except failures.StillUnderWay:
        raise StillUnderWay(describe_live(display, tasks, f"after {timeout:g} s")) from None
    except KeyboardInterrupt:
        raise Detached(describe_live(display, tasks, "and runs on without this command")) from None
    return [display.views[task] for task in tasks]


def bars(out: "Console") -> "Progress":
    """Return the bars of tasks."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.fields[mark]}{task.description}", markup=False),
        BarColumn(bar_width=12),
        TextColumn("{task.fields[jobs]}", markup=False),
        TimeElapsedColumn(),
        console=out,
    )


def describe_live(display: "TaskDisplay", tasks: Sequence[int], circumstance: str) -> str:
    """Describe the states of tasks that have not ended, and how to come back."""
    live = [task for task in tasks if not display.ended(task)]
    named = " ".join(map(str, live[:MOST_NAMED]))
    states = ", ".join(
        f"task {task} {clause_of_task(display.views[task]) if task in display.views else 'was not read'}"
        for task in live[:3]
    )
    more = f" and {len(live) - 3} more" if len(live) > 3 else ""
    commands = f"to come back: pilotage wait {named}; to end it: pilotage cancel {named}"
    return f"{states}{more} {circumstance}; {commands}"


class TaskDisplay:
    """The last state of each task, and its display; without ``progress`` no bars."""

    def __init__(self, progress: "Progress | None", in_lines: bool, stderr: bool = False) -> None:
        self._stderr = stderr
        self.views: dict[int, Mapping[str, Any]] = {}
        self._progress = progress
        self._in_lines = in_lines
        self._bars: dict[int, Any] = {}

    def ended(self, task: int) -> bool:
        """Return whether a task is known to have ended."""
        return task in self.views and has_ended(self.views[task])

    def mark(self, marked: int) -> None:
        """Mark the bar of one task."""
        if self._progress is not None:
            for task, bar in self._bars.items():
                self._progress.update(bar, mark="> " if task == marked else "  ")

    def update(self, view: Mapping[str, Any]) -> None:
        """Show a task as it is now."""
        task = view["id"]
        before = self.views.get(task)
        self.views[task] = view
        line = line_of_task(view)
        hint = "".join(f"; {line}" for line in waiting(view))
        if self._in_lines and (before is None or line_of_task(before) != line):
            echo(f"{line}{hint}", self._stderr)
        if self._progress is not None:
            # A line of a terminal has no room for what jobs wait for.
            self._draw(
                self._progress,
                view,
                counts({str(word): number for word, number in word_counts(view["jobs"]).items()}),
            )

    def _draw(self, progress: "Progress", view: Mapping[str, Any], jobs: str) -> None:
        task = view["id"]
        # A bar without a total pulses, because the number of jobs is not known yet.
        if task not in self._bars:
            self._bars[task] = progress.add_task("", total=None, jobs="", mark="")
        progress.update(
            self._bars[task],
            description=visible(f"task {task} {view['name']} {word_of_task(view)}"),
            total=sum(view["jobs"].values()) or None,
            completed=sum(view["jobs"].get(state, 0) for state in ENDED["job"]),
            # A line of a terminal has no room for the hint beside the bar.
            jobs=visible(jobs),
        )


def waiting(view: Mapping[str, Any]) -> list[str]:
    """Return what a task waits for, with the command that explains it; nothing if it does not wait."""
    lines = [remark["text"] for remark in view.get("remarks", ()) if remark["kind"] in WAITS]
    return [*lines, f"more: pilotage explain {view['id']}"] if lines else []


def has_ended(view: Mapping[str, Any]) -> bool:
    """Return whether a task has ended, or is blocked by a failed one before it: a person must act."""
    return view["state"] in ENDED["task"] or bool(blocked(view))


def blocked(view: Mapping[str, Any]) -> str:
    """Return why a task is blocked by one before it; empty if it is not."""
    return next((remark["text"] for remark in view.get("remarks", ()) if remark["kind"] == "blocked"), "")


def keep_showing(
    client: "Client",
    look: Callable[[], Sequence[Any]],
    rows: Callable[[Any], list[tuple[object, ...]]],
    columns: Sequence[Column],
) -> None:
    """Keep a table of tasks up to date until the user interrupts: look after each event.

    Without a terminal, print a line for each change.
    """
    if not is_terminal():
        display = TaskDisplay(None, in_lines=True)
        for _ in client.changes(kinds=KINDS):
            # The server sends the newest first, but lines go downwards.
            for view in reversed(look()):
                display.update(view)
    from rich.live import Live

    with Live(console=console(), auto_refresh=False) as live:
        for _ in client.changes(kinds=KINDS):
            live.update(table(columns, rows(look())), refresh=True)


def fail_unless_finished(views: Sequence[Mapping[str, Any]]) -> None:
    """Raises ``CommandFailure`` that names the tasks that did not finish."""
    endings = [_end(view) for view in views if view["state"] != TaskState.FINISHED]
    if endings:
        raise CommandFailure("; ".join(endings))


def _end(view: Mapping[str, Any]) -> str:
    if reason := blocked(view):
        return f"task {view['id']}: {reason}"
    if not view["error"]:
        return f"task {view['id']} {view['state']}"
    rest = f"; all of it: pilotage logs {view['id']} --failed" if is_long(view["error"]) else ""
    return f"task {view['id']} {view['state']}: {in_short(view['error'])}{rest}"
