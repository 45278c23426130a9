"""The logs that people read now, known to every server, and the pruning of stored ones."""

import threading
from collections.abc import Iterable
from typing import Literal

from pilotage.flow.cache import Cache
from pilotage.model.records.constants import LogConstants
from pilotage.store import Store

BELIEVED_FOR = 1.0
"""Seconds for which the list of readers is cached, so that reports cost no query."""

READS_FOR = 90.0
"""Seconds for which a person counts as reading: by default pilots call every minute."""

PRUNED_EVERY = 60.0
"""Seconds between two prunings."""


class LogReaders:
    """Lets pilots know which logs to send while their payloads run. Safe to use from many threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._readers = Cache(store.logs.with_readers, BELIEVED_FOR)
        self._pruned_at = float("-inf")
        self._noted: dict[tuple[str, int], float] = {}

    def ask(self, kind: Literal["job", "pilot"], record: int, time: float) -> None:
        """Record that a person reads the logs of a job or pilot."""
        with self._lock:
            # A follower asks again and again: write it only after half the time is over.
            if self._noted.get((kind, record), 0.0) > time + READS_FOR / 2:
                return
            self._noted = {key: until for key, until in self._noted.items() if until > time}
            self._noted[kind, record] = time + READS_FOR
        self._store.logs.ask(kind, record, time + READS_FOR)

    def read(
        self, pilot: int, holding: Iterable[tuple[int, int]], time: float
    ) -> tuple[list[tuple[int, int]], bool]:
        """Return which of a pilot's attempts have a reader of their logs, and whether its own log has one."""
        readers = self._readers.at(time)
        return [pair for pair in holding if ("job", pair[0]) in readers], ("pilot", pilot) in readers

    def prune(self, time: float, bounds: LogConstants) -> None:
        """From time to time, delete logs that are too old or too many."""
        with self._lock:
            if 0 <= time - self._pruned_at < PRUNED_EVERY:
                return
            self._pruned_at = time
        self._store.log_retention.prune(time, bounds)
