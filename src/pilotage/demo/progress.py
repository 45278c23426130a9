"""The live display: jobs by state, transfers, pilots, each queue.

Without a terminal it prints plain lines.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pilotage.model.records.states import ENDED, LIVE_PILOTS, JobState

DONE = (JobState.MERGING, *ENDED["job"])
PLAIN_PERIOD = 2.0
"""Seconds between two plain lines."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The server's state at one moment: counts by state, and the queues in the API's form."""

    task: str
    jobs: Mapping[str, int]
    transfers: Mapping[str, int] = field(default_factory=dict)
    queues: tuple[Mapping[str, Any], ...] = ()

    @property
    def done(self) -> int:
        """Return how many jobs need nothing more before the task can end."""
        return sum(self.jobs.get(state, 0) for state in DONE)

    @property
    def total(self) -> int:
        """Return the number of jobs made so far."""
        return sum(self.jobs.values())

    @property
    def pilots(self) -> int:
        """Return how many pilots wait or run."""
        return sum(queue["pilots"].get(state, 0) for queue in self.queues for state in LIVE_PILOTS)


class Display:
    """Shows moments in turn."""

    def __init__(self, console: Console, live: Live | None) -> None:
        self._console = console
        self._live = live
        self._shown = 0.0
        self._last = ""
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TextColumn("jobs"),
            TimeElapsedColumn(),
        )
        self._task = self._bar.add_task("starting", total=None)

    def show(self, moment: Moment) -> None:
        """Replace the display, or print a line if something changed and the last line is old enough."""
        if self._live is not None:
            self._bar.update(
                self._task, description=moment.task, total=moment.total or None, completed=moment.done
            )
            self._live.update(Group(self._bar, _queues(moment), line(moment)))
            return
        now = time.monotonic()
        text = f"{moment.task}: {moment.done} of {moment.total} jobs; {line(moment)}"
        if text != self._last and now - self._shown >= PLAIN_PERIOD:
            self._console.print(text, highlight=False, soft_wrap=True)
            self._shown, self._last = now, text


@contextmanager
def display(console: Console) -> Iterator[Display]:
    """Return a live display on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield Display(console, None)
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield Display(console, live)


def line(moment: Moment) -> str:
    """Return jobs, transfers and pilots in one line."""
    jobs = ", ".join(f"{moment.jobs[state]} {state}" for state in JobState if moment.jobs.get(state))
    transfers = ", ".join(f"{number} {state}" for state, number in moment.transfers.items() if number)
    return f"jobs: {jobs or 'none'} | transfers: {transfers or 'none'} | pilots: {moment.pilots}"


def _queues(moment: Moment) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("queue")
    for name in ("waiting for data", "ready", "running", "ended", "pilots"):
        table.add_column(name, justify="right")
    for queue in moment.queues:
        jobs: Counter[str] = Counter(queue["jobs"])
        table.add_row(
            queue["name"],
            str(jobs["assigned"]),
            str(jobs["activated"]),
            str(jobs["sent"] + jobs["starting"] + jobs["running"]),
            str(sum(jobs[state] for state in (JobState.HOLDING, JobState.TRANSFERRING, *DONE))),
            str(sum(queue["pilots"].get(state, 0) for state in LIVE_PILOTS)),
        )
    return table
