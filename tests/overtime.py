"""One thread for the time that tests may take: one for each test cost more than many a test."""

import math
import threading
import time
from collections.abc import Callable


class Overtime:
    """Calls what is to be done with a test that takes too long, from a thread that looks now and then."""

    def __init__(self, look: float = 1.0) -> None:
        self._look = look
        self._end, self._late = math.inf, _nothing
        self._thread: threading.Thread | None = None

    def watch(self, seconds: float, late: Callable[[], None]) -> Callable[[], None]:
        """Call ``late`` after so many seconds, unless what is returned is called before."""
        self._late, self._end = late, time.monotonic() + seconds
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="overtime", daemon=True)
            self._thread.start()
        return self._cancel

    def _cancel(self) -> None:
        self._end = math.inf

    def _run(self) -> None:
        while True:
            time.sleep(self._look)
            if time.monotonic() > self._end:
                self._cancel()
                self._late()


def _nothing() -> None:
    """Be there before the first test is."""
