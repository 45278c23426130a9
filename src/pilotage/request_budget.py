"""What one request may use of the server: seconds of computing, faults and suggestions in its answer.

The guard opens a budget for each request. The context carries it, so every thread that works on the request
asks the same one. The server's own loops, and programs without a server, have none.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
        self._spent = 0.0
        self._opener = threading.get_ident()
        self._seen: dict[int, float] = {}

    def check(self) -> None:
        """Count the calling thread's seconds since its last call. Raises ClientGone or RequestTooLong."""
        if self.is_client_gone:
            raise ClientGone
        thread = threading.get_ident()
        if thread == self._opener:
            return  # the event loop works on all requests by turns
        now = time.thread_time()
        self._spent += now - self._seen.get(thread, now)
        self._seen[thread] = now
        if self._spent > MOST_SECONDS:
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


def check() -> None:
    """Ask whether the current request may go on. Raises ClientGone or RequestTooLong."""
    if budget := _current.get():
        budget.check()


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
