"""The deletion of events that are older than a setting says, a little at a time."""

import logging
import threading

from pilotage.store import Store

log = logging.getLogger(__name__)

PERIOD = 600.0
"""Seconds between two searches for old events."""

PAUSE = 0.5
"""Seconds between two batches, so that others write in between."""


class ForgettingEvents:
    """A server's thread that deletes events after ``age`` seconds."""

    def __init__(self, store: Store, age: float) -> None:
        self._store = store
        self._age = age
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="forgetting-events", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End after the current batch."""
        self._stopping.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                while self._store.event_retention.forget(self._store.clock() - self._age):
                    if self._stopping.wait(PAUSE):
                        return
            except Exception:
                log.exception("could not delete old events; trying again in %g s", PERIOD)
            self._stopping.wait(PERIOD)
