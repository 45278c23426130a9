"""What one request may use of the server: seconds of computing, faults and suggestions in its answer.

The guard opens a budget for each request. The context carries it, so every thread that works on the request
asks the same one. The server's own loops, and programs without a server, have none.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

MOST_SECONDS = 20.0
"""Most seconds that threads compute for one request."""

MOST_FAULTS = 1000
"""Most faults that one request, or one document in a file, gets explained."""

MOST_SUGGESTIONS = 100
"""Most words of one request that are compared with known ones: each comparison takes up to 10 ms."""


class RequestTooLong(Exception):
    """A request needs more seconds of computing than one request has."""

    def __init__(self) -> None:
        super().__init__(
            f"the request takes more than {MOST_SECONDS:g} s to work on; send fewer records at once"
        )


class ClientGone(Exception):
    """The client closed its connection: nobody reads the answer."""


class RequestBudget:
    """What is left of one request's share. Threads may use it at the same time."""

    def __init__(self) -> None:
        self.faults = MOST_FAULTS
        self.suggestions = MOST_SUGGESTIONS
        self.is_client_gone = False
        self.spent = 0.0
        """Seconds that threads have computed for the request."""
        self._seen: dict[int, float] = {}

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Count the seconds that the calling thread computes in the block. Raises nothing."""
        thread = threading.get_ident()
        if thread in self._seen:  # a block within another
            yield
            return
        self._seen[thread] = time.thread_time()
        try:
            yield
        finally:
            self.spent += time.thread_time() - self._seen.pop(thread)

    def check(self) -> None:
        """Count the calling thread's seconds up to now. Raises ClientGone or RequestTooLong."""
        if self.is_client_gone:
            raise ClientGone
        thread = threading.get_ident()
        if (before := self._seen.get(thread)) is None:
            return  # the event loop, or what waits for others
        self._seen[thread] = now = time.thread_time()
        self.spent += now - before
        if self.spent > MOST_SECONDS:
            raise RequestTooLong


_current: ContextVar[RequestBudget | None] = ContextVar("pilotage_request_budget", default=None)


@contextmanager
def opened() -> Iterator[RequestBudget]:
    """Give a new budget to what the block calls, and to threads that get its context."""
    budget = RequestBudget()
    before = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(before)


def measured() -> AbstractContextManager[None]:
    """Count for the current request, if any, the seconds that a thread computes in the block.

    The thread that enters the block may be another one than the caller's.
    """
    budget = _current.get()
    return budget.measured() if budget else nullcontext()


def check() -> None:
    """Ask whether the current request may go on. Raises ClientGone or RequestTooLong."""
    if budget := _current.get():
        budget.check()


def asking(items: Iterable[T]) -> Iterator[T]:
    """Yield items, and ask before each whether the current request may go on.

    One record can hold a hundred thousand of them. Raises ClientGone or RequestTooLong.
    """
    for item in items:
        check()
        yield item


def faults_left() -> int:
    """Return how many more faults are explained."""
    budget = _current.get()
    return budget.faults if budget else MOST_FAULTS


def take_faults(count: int) -> None:
    """Count faults that were explained."""
    if budget := _current.get():
        budget.faults = max(0, budget.faults - count)


def takes_suggestion() -> bool:
    """Return whether one more word is compared with known ones, and count it."""
    check()
    budget = _current.get()
    if budget is None:
        return True
    budget.suggestions -= 1
    return budget.suggestions >= 0
