"""A process's measurements go to the store from time to time, where any server reads those of all."""

import logging

from pilotage.flow.background import BackgroundService
from pilotage.store import Store, outage

log = logging.getLogger(__name__)

PERIOD = 10.0
"""Seconds between two additions. A process that is killed loses what it measured since the last."""


class AddingMeasurements(BackgroundService):
    """A process's thread that adds its measurements to those of all, what is left at its end too."""

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
