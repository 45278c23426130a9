"""The view of ``watch`` on a terminal: a bar a task, and keys for why it waits and for a log."""

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from pilotage.cli.configuration import connect
from pilotage.cli.errors import Detached
from pilotage.cli.terminal.layout import visible
from pilotage.cli.terminal.output import console, echo, is_terminal, width
from pilotage.cli.terminal.states import state_of_job
from pilotage.cli.work.following import TaskDisplay, bars, describe_live

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from pilotage.client import Client

PERIOD = 0.2
"""Seconds to wait for a key before the view is drawn again."""

HELP = "up/down: select a task   w: why it waits   l: log   q: quit, the tasks go on"

_UP, _DOWN = ("\x1b[A", "\x1bOA", "k"), ("\x1b[B", "\x1bOB", "j")


def has_keys() -> bool:
    """Return whether a person can see the view and press keys."""
    return is_terminal() and sys.stdin.isatty() and not console().is_dumb_terminal


def watch(client: "Client", tasks: Sequence[int]) -> None:
    """Show tasks until all have ended, or until the user quits.

    Raises ``Detached`` where the user interrupts, and the errors of the requests that follow tasks.
    """
    from rich.live import Live

    out = console()
    follower = _Follower(tasks)
    follower.start()
    view = _View(client, tasks, out)
    try:
        with (
            _interrupts() as check,
            _keys() as pressed,
            Live(console=out, auto_refresh=False, vertical_overflow="crop") as live,
        ):
            while follower.goes_on(view.display):
                check()
                live.update(view.draw(), refresh=True)
                key = pressed()
                if key == "q":
                    break
                view.press(key)
            view.text = []
            live.update(view.draw(), refresh=True)
    except KeyboardInterrupt:
        raise Detached(describe_live(view.display, tasks, "and runs on without this command")) from None
    if follower.failure is not None:
        raise follower.failure
    if not all(map(view.display.ended, tasks)):
        echo(describe_live(view.display, tasks, "and runs on without this command"))


class _Follower(threading.Thread):
    """Follows tasks beside the keys, with its client."""

    def __init__(self, tasks: Sequence[int]) -> None:
        # A daemon: nothing can stop a request that waits for news, and the process may end during it.
        super().__init__(name="follow", daemon=True)
        self.failure: Exception | None = None
        self._tasks = tasks
        self._news: SimpleQueue[Mapping[str, Any] | None] = SimpleQueue()

    def run(self) -> None:
        """Pass on each task that changed, then None at the end."""
        try:
            with connect() as client:
                for task in client.follow(self._tasks):
                    self._news.put(task)
        except Exception as error:
            self.failure = error
        self._news.put(None)

    def goes_on(self, display: TaskDisplay) -> bool:
        """Show the news. Return whether there may be more."""
        try:
            while (task := self._news.get_nowait()) is not None:
                display.update(task)
        except Empty:
            return True
        return False


class _View:
    """What the terminal shows: the bars, the keys, and the text that the user asked for."""

    def __init__(self, client: "Client", tasks: Sequence[int], out: "Console") -> None:
        self._client = client
        self._tasks = tasks
        self._out = out
        self._selected = 0
        self._bars = bars(out)
        self.display = TaskDisplay(self._bars, in_lines=False)
        self.text: list[str] = []

    def press(self, key: str) -> None:
        """Do the action of a key, if it has one."""
        task = self._tasks[self._selected]
        if key in _UP or key in _DOWN:
            step = -1 if key in _UP else 1
            self._selected = min(max(self._selected + step, 0), len(self._tasks) - 1)
            self.text = []
        elif key == "w":
            self.text = self._answer_lines(self._explain, task)
        elif key == "l":
            self.text = self._answer_lines(self._log, task)

    def draw(self) -> "RenderableType":
        """Return the view, no higher than the terminal."""
        from rich.console import Group
        from rich.text import Text

        self.display.mark(self._tasks[self._selected])
        room = max(0, self._out.height - len(self._tasks) - 3)
        lines = [HELP, *self.text[:room]]
        text = Text("\n".join(lines), overflow="ellipsis", no_wrap=True)
        return Group(self._bars.get_renderable(), text)

    def _answer_lines(self, ask: Callable[[int], list[str]], task: int) -> list[str]:
        from pilotage.client import ClientError

        try:
            return [visible(line) for line in ask(task)]
        except ClientError as error:
            return [visible(str(error))]

    def _explain(self, task: int) -> list[str]:
        from pilotage.explain.layout import folded

        lines = self._client.explain(task, limit=1)["lines"]
        return [f"-- why: task {task} --", *folded(lines, width())]

    def _log(self, task: int) -> list[str]:
        jobs = [
            job
            for word in ("failed", "running")
            for job in self._client.jobs(task, word=word, sort="since", limit=1)
        ]
        if not jobs:
            return [f"no job of task {task} has failed, and none runs: there is no log to show"]
        job = max(jobs, key=lambda job: float(job["since"]))
        written = self._client.logs(f"job:{job['id']}")["logs"]
        lines = [line for log in written for part in log["parts"] for line in part["text"].splitlines()]
        head = f"-- log of job:{job['id']}, {state_of_job(job)}: pilotage logs job:{job['id']} shows all --"
        return [head, *(lines[-self._out.height :] or ["nothing yet; its pilot will send it: press l again"])]


@contextmanager
def _interrupts() -> Iterator[Callable[[], None]]:
    """Yield a check that raises KeyboardInterrupt after an interrupt.

    Python drops an exception that is raised while it frees an object, and the interrupt would be lost.
    """
    interrupted = threading.Event()

    def interrupt(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    def check() -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """Read single keys without an echo. Yield the wait for the next one; it returns empty for none."""
    import termios
    import tty

    stream = sys.stdin.fileno()
    before = termios.tcgetattr(stream)

    def pressed() -> str:
        ready, _, _ = select.select([stream], [], [], PERIOD)
        # An arrow is several characters, which come together.
        return os.read(stream, 16).decode(errors="replace") if ready else ""

    try:
        tty.setcbreak(stream)
        yield pressed
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, before)
