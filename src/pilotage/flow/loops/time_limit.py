"""Limited time for decisions: our budgets do not count what an external brokerage plugin does.

A decision runs in its own thread. When its time is over, an exception is raised in that thread, between two
Python instructions. A plugin that waits in the operating system is left behind. One that computes in C
without releasing the interpreter blocks the whole process, and only a restart helps.

No import is interrupted: a module that is half imported is broken for the rest of the process.
"""

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TypeVar

from pilotage import request_budget

T = TypeVar("T")

DECISION_TIMEOUT = 30.0
"""Time limit in s of one policy for one world."""

CALL_TIMEOUT = 20.0
"""The same if a person waits for the answer."""

LEAST_TIMEOUT = 2.0
"""The same for a small part of a world."""

LOOK_AGAIN = 0.2
"""Seconds after which a call looks whether its client is still there."""

GRACE = 2.0
"""Seconds for a decision to end after the exception."""

AGAIN = 0.05
"""Seconds between two exceptions: a plugin may catch them."""


LONGEST_IMPORT = 300.0
"""Most seconds that a decision may take while it imports modules: on a busy machine, a first one does."""

MOST_IDLE = 4
"""Threads kept for the next decisions."""

_IMPORTS = "<frozen importlib._bootstrap>"
"""The file of the code that imports, in its frames."""


class OutOfTime(Exception):
    """A decision took too long and was ended."""


class _End(BaseException):
    """Raised in the thread of a decision. ``except Exception`` does not catch it."""


@dataclass(slots=True)
class _Run:
    """One running decision, in a thread of ``_Worker``."""

    call: Callable[[], object]
    thread: threading.Thread
    measured: AbstractContextManager[None] = field(default_factory=request_budget.measured)
    begun: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    result: object = None
    error: BaseException | None = None

    def run(self) -> None:
        """Keep the result of the call, or its error."""
        # The exception may come at any moment, even while this function ends.
        with suppress(_End):
            self.begun.set()
            try:
                with self.measured:
                    self.result = self.call()
            except BaseException as error:
                self.error = error
            self.done.set()

    def is_importing(self) -> bool:
        """Return whether the thread imports a module, or waits until another thread has imported it."""
        frame = sys._current_frames().get(self.thread.ident or 0)
        while frame is not None and frame.f_code.co_filename != _IMPORTS:
            frame = frame.f_back
        return frame is not None

    def end(self) -> None:
        """Raise an exception in the thread, which takes effect at its next Python instruction.

        Does nothing before the call begins or after it has ended: then the thread runs other code.
        """
        if not self.begun.is_set() or self.done.is_set() or self.is_importing():
            return
        if self.thread.is_alive() and self.thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.thread.ident), ctypes.py_object(_End)
            )


class _Worker:
    """A thread that makes one decision after another: to start a thread takes longer than most of them."""

    def __init__(self) -> None:
        self._runs = SimpleQueue[_Run | None]()
        self._thread = threading.Thread(target=self._take, name="decision", daemon=True)
        self._thread.start()

    def begin(self, call: Callable[[], object]) -> _Run:
        """Run a call in the thread."""
        run = _Run(call, self._thread)
        self._runs.put(run)
        return run

    def leave(self) -> None:
        """End the thread after its decision."""
        self._runs.put(None)

    def _take(self) -> None:
        with suppress(_End):
            while run := self._runs.get():
                run.run()
                # Keep no world alive until the next decision.
                del run


class TimeLimit:
    """Gives calls a time limit. With None for ``seconds`` they run without limit, in the caller's thread."""

    def __init__(self, seconds: float | None = DECISION_TIMEOUT) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._left_behind: list[_Run] = []
        self._idle: list[_Worker] = []

    @property
    def stuck(self) -> int:
        """Return how many decisions could not be ended and still run. Raise the exception in each again."""
        with self._lock:
            self._left_behind = [run for run in self._left_behind if run.thread.is_alive()]
            for run in self._left_behind:
                run.end()
            return len(self._left_behind)

    def call(self, call: Callable[[], T], seconds: float | None = None) -> T:
        """Return the result of a call, or raise its exception. Raises ``OutOfTime``, or
        ``ClientGone`` once the client has stopped waiting for the decision.
        """
        if self.seconds is None:
            return call()
        limit = self.seconds if seconds is None else min(seconds, self.seconds)
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker()
        run = worker.begin(call)
        has_ended = False
        try:
            has_ended = _has_ended(run, limit)
        finally:
            if has_ended and len(self._idle) < MOST_IDLE:
                self._idle.append(worker)
            else:
                worker.leave()
            if not has_ended:
                self._end(run)
        if not has_ended:
            raise OutOfTime(f"did not decide within {limit:g} s")
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


def _has_ended(run: _Run, seconds: float) -> bool:
    """Wait for a decision, and return whether it ended in time. It gets more time while it imports."""
    latest = time.monotonic() + LONGEST_IMPORT
    ends = time.monotonic() + seconds
    while not run.done.wait(min(seconds, LOOK_AGAIN)):
        request_budget.check()
        now = time.monotonic()
        if now < ends:
            continue
        if not run.is_importing() or now > latest:
            return False
        ends = now + seconds
    return True
