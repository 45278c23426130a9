"""A process's measurements go to the store from time to time, where any server reads those of all."""

import logging
import threading

from pilotage.store import Store, outage

log = logging.getLogger(__name__)

PERIOD = 10.0
"""Seconds between two additions. A process that is killed loses what it measured since the last."""


class AddingMeasurements:
    """A process's thread that adds its measurements to those of all."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="adding-measurements", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Add what is left, and end."""
        self._stopping.set()
        self._thread.join()

    def _loop(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stopping.wait(PERIOD)
            try:
                self._store.add_measurements()
            except Exception as error:
                if told := outage(error):
                    log.warning("measurements are kept in memory: %s", told)
                else:
                    log.exception("measurements are kept in memory, and tried again in %g s", PERIOD)
