"""A process adds its measurements to the store from time to time, so that any server can read all."""

import logging

from pilotage.flow.background import BackgroundService
from pilotage.store import Store, outage

log = logging.getLogger(__name__)

PERIOD = 10.0
"""Seconds between two additions. A process that is killed loses what it measured since the last."""


class AddingMeasurements(BackgroundService):
    """A thread that adds the process's measurements to the store, the last ones at its end."""

    def __init__(self, store: Store) -> None:
        super().__init__({"adding-measurements": self._loop})
        self._store = store

    def _loop(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stopping.wait(PERIOD)
            try:
                self._store.add_measurements()
            except Exception as error:
                if reason := outage(error):
                    log.warning("measurements are kept in memory: %s", reason)
                else:
                    log.exception("measurements are kept in memory, and tried again in %g s", PERIOD)
