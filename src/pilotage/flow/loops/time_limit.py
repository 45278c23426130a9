"""Bounded time for decisions: what a brokerage plugin from outside does, no budget of ours counts.

A decision runs in a thread of its own. When its time is over, an exception is raised in that thread, between
two of its steps in Python. A plugin that waits in the operating system is left behind; one that computes
in C without giving way holds the whole process, and only a restart helps.
"""

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

DECISION_TIMEOUT = 30.0
"""Seconds that one policy may take to decide about one world."""

CALL_TIMEOUT = 20.0
"""Seconds that it may take where a person waits for the answer."""

LEAST_TIMEOUT = 2.0
"""Seconds that it may take about a small part of a world."""

GRACE = 2.0
"""Seconds for a decision to end once it was told to."""

AGAIN = 0.05
"""Seconds between two times that it is told to: a plugin may catch what is raised in it."""

MOST_STUCK = 4
"""Decisions that could not be ended, beyond which nobody's question starts another one."""


class OutOfTime(Exception):
    """A decision took too long, and was ended."""


class _End(BaseException):
    """Raised in the thread of a decision: ``except Exception`` does not catch it."""


@dataclass(slots=True)
class _Run:
    """One decision under way, in its thread."""

    call: Callable[[], object]
    thread: threading.Thread = field(init=False)
    done: threading.Event = field(default_factory=threading.Event)
    result: object = None
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name="decision", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        # What is raised from outside may come at any moment, also while this function ends.
        with suppress(_End):
            try:
                self.result = self.call()
            except BaseException as error:
                self.error = error
            self.done.set()

    def end(self) -> None:
        """Raise an exception in the thread, which takes notice at its next step in Python."""
        if self.thread.is_alive() and self.thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.thread.ident), ctypes.py_object(_End)
            )


class TimeLimit:
    """Gives calls a bounded time; None for ``seconds``: as long as they take, in the caller's thread."""

    def __init__(self, seconds: float | None = DECISION_TIMEOUT) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._left_behind: list[_Run] = []

    @property
    def stuck(self) -> int:
        """Count the decisions that could not be ended and still run; each is told once more to end."""
        with self._lock:
            self._left_behind = [run for run in self._left_behind if run.thread.is_alive()]
            for run in self._left_behind:
                run.end()
            return len(self._left_behind)

    def call(self, call: Callable[[], T], seconds: float | None = None) -> T:
        """Return what a call returns, and raise what it raises. Raises :class:`OutOfTime`."""
        if self.seconds is None:
            return call()
        most = self.seconds if seconds is None else min(seconds, self.seconds)
        run = _Run(call)
        if not run.done.wait(most):
            self._end(run)
            raise OutOfTime(f"did not decide within {most:g} s")
        if run.error is not None:
            raise run.error
        return run.result  # type: ignore[return-value]

    def _end(self, run: _Run) -> None:
        for _ in range(round(GRACE / AGAIN)):
            run.end()
            run.thread.join(AGAIN)
            if not run.thread.is_alive():
                return
        with self._lock:
            self._left_behind.append(run)
