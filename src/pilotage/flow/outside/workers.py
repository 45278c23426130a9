"""Workers: calls to the outside in their own threads, limited per place and in time.

A place is anything that can fail separately: a computing element, a storage. Its calls wait only for each
other. A thread stuck in a call cannot be ended. It is left behind when the call's time is over. After
``MOST_STUCK`` of them the place is refused until one returns.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")

AT_ONCE = 4
"""Most concurrent calls to one place."""

MOST_WAITING = 10_000
"""Most calls that wait for one place. More are refused."""

MOST_STUCK = 8
"""Most threads left behind at one place before it is refused."""

TIME_LIMIT = 300.0
"""Default time limit of a call in s."""

LOOK = 0.2
"""Seconds between two checks for calls beyond their time limit."""


class PlaceBusy(OSError):
    """A place is full: too many calls wait, or too many never returned."""


class WorkersPort(Protocol):
    """Runs calls that may block. ``inline`` ones have ended when ``call`` returns."""

    inline: bool

    def call(self, place: str, function: Callable[[], T], time_limit: float = TIME_LIMIT) -> "Future[T]":
        """Start a call to a place. The future fails with TimeoutError after ``time_limit`` s, with
        ``PlaceBusy`` if the place is full, or with the function's error."""

    def close(self) -> None:
        """Start nothing more. Running calls are left alone."""


@dataclass(slots=True)
class _Call:
    """A call that waits, runs, or is stuck. ``ends`` is set when it starts, in monotonic s."""

    function: Callable[[], object]
    future: "Future[object]"
    time_limit: float
    ends: float = 0.0
    # Log lines of the call have the same fields as its caller's.
    context: Context = field(default_factory=copy_context)

    def run(self) -> None:
        try:
            result = self.context.run(self.function)
        except BaseException as error:  # an adapter may be foreign code
            self.settle(error=error)
        else:
            self.settle(result)

    def settle(self, result: object = None, error: BaseException | None = None) -> None:
        """Set the result, unless the call's time was over before."""
        with suppress(InvalidStateError):
            if error is None:
                self.future.set_result(result)
            else:
                self.future.set_exception(error)


@dataclass(slots=True)
class _Place:
    waiting: deque[_Call] = field(default_factory=deque)
    running: list[_Call] = field(default_factory=list)
    stuck: list[_Call] = field(default_factory=list)


class Workers:
    """Daemon threads, started when needed and ended when their place has nothing to do."""

    inline = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[str, _Place] = {}
        self._watching = False
        self._closed = threading.Event()

    def call(self, place: str, function: Callable[[], T], time_limit: float = TIME_LIMIT) -> "Future[T]":
        """See ``WorkersPort.call``."""
        future: Future[T] = Future()
        call = _Call(function, future, time_limit)  # type: ignore[arg-type]
        with self._lock:
            there = self._places.setdefault(place, _Place())
            refusal = self._refusal(place, there)
            if not refusal:
                there.waiting.append(call)
                self._start(place, there)
        if refusal:
            future.set_exception(PlaceBusy(refusal))
        return future

    def close(self) -> None:
        """See ``WorkersPort.close``."""
        self._closed.set()

    def _refusal(self, place: str, there: _Place) -> str:
        if self._closed.is_set():
            return f"{place}: the server is stopping"
        if len(there.stuck) >= MOST_STUCK:
            return f"{place} does not answer: {len(there.stuck)} calls never came back"
        if len(there.waiting) >= MOST_WAITING:
            return f"{place}: {MOST_WAITING} calls wait already"
        return ""

    def _start(self, place: str, there: _Place) -> None:
        """Start what may start. The caller holds the lock."""
        while there.waiting and len(there.running) < AT_ONCE and len(there.stuck) < MOST_STUCK:
            call = there.waiting.popleft()
            call.ends = time.monotonic() + call.time_limit
            there.running.append(call)
            threading.Thread(target=self._run, args=(place, call), name=f"call-{place}", daemon=True).start()
        if not self._watching:
            self._watching = True
            threading.Thread(target=self._watch, name="calls-watch", daemon=True).start()

    def _run(self, place: str, call: _Call) -> None:
        call.run()
        with self._lock:
            there = self._places[place]
            # It may return after its time limit: then the place has one stuck call less.
            (there.running if call in there.running else there.stuck).remove(call)
            self._start(place, there)

    def _watch(self) -> None:
        """Give up calls beyond their time limit, until no call runs or waits."""
        while not self._closed.wait(LOOK):
            late: list[_Call] = []
            with self._lock:
                for place, there in list(self._places.items()):
                    late += self._give_up(place, there)
                    if not (there.waiting or there.running or there.stuck):
                        del self._places[place]
                # Stuck calls need no watch: their thread reports its return.
                idle = not any(there.running or there.waiting for there in self._places.values())
                self._watching = not idle
            for call in late:
                call.settle(error=TimeoutError(f"no answer within {call.time_limit:g} s"))
            if idle:
                return

    def _give_up(self, place: str, there: _Place) -> list[_Call]:
        now = time.monotonic()
        late = [call for call in there.running if call.ends <= now]
        for call in late:
            there.running.remove(call)
            there.stuck.append(call)
        if late:
            log.warning("%s: %d calls gave no answer in time", place, len(late))
            self._start(place, there)
        if len(there.stuck) >= MOST_STUCK:
            late += there.waiting
            there.waiting.clear()
        return late


class Inline:
    """Runs every call in the caller's thread: for tests and for virtual time."""

    inline = True

    def call(self, place: str, function: Callable[[], T], time_limit: float = TIME_LIMIT) -> "Future[T]":  # noqa: ARG002
        """See ``WorkersPort.call``. There are no limits."""
        future: Future[T] = Future()
        _Call(function, future, time_limit).run()  # type: ignore[arg-type]
        return future

    def close(self) -> None:
        """Do nothing: no call is ever running."""
