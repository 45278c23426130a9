"""The times for which pilots without work stay, as one process knows them (E5)."""

import threading
from collections.abc import Mapping

from pilotage.model.records.federation import Federation, Queue
from pilotage.pilots.batch_waits import expected_waits, stay
from pilotage.store import Store

KNOWN_FOR = 60.0
"""Seconds for which waits in batch systems hold: to read them looks at every live pilot."""


class IdleTimeouts:
    """Remembers how long pilots wait in batch systems. Safe to use from many threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._waits: Mapping[str, float] = {}

    def seconds(self, federation: Federation, queue: Queue | None, time: float) -> float:
        """Return the s that a pilot of a queue stays without work, at a time in s since 1970."""
        loops = federation.loops
        if queue is None or loops.pilot_idle_most <= loops.pilot_idle:
            return loops.pilot_idle
        return stay(loops, queue, self._expected(time).get(queue.name, 0.0))

    def _expected(self, time: float) -> Mapping[str, float]:
        with self._lock:
            if self._read_at is not None and 0 <= time - self._read_at <= KNOWN_FOR:
                return self._waits
            # Set before reading: others go on with what was known, rather than read the same.
            self._read_at = time
        self._waits = expected_waits(self._store.queries.live_pilots(), time)
        return self._waits
