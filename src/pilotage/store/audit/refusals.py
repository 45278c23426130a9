"""Counts of events that others could cause without end, so that they fill no disk.

Refused sign-ins are counted in memory by address and reason; a record has a count. Reads of others' data are
recorded once an hour for each person and record.
"""

import threading
from collections.abc import Callable, Hashable
from typing import NamedTuple

from cachetools import TTLCache

from pilotage.model.records.audit import LONGEST_TEXT, NewAuditRecord
from pilotage.model.values.durations import HOUR

MOST_ADDRESSES = 100
"""Pairs of address and reason that an hour counts apart, in each process. All others are one."""

MOST_READS = 1000
"""Reads of others' data by one person that an hour records, in each process."""

MOST_KEYS = 20_000
"""Keys that a process remembers."""

REFUSED = "sign-in refused"
"""The verb of the records."""


class _RefusedSignIn(NamedTuple):
    address: str
    reason: str


_OTHERS = _RefusedSignIn("others", "further refusals of this hour")


class Refusals:
    """Counts refused sign-ins of a process. ``clock`` returns the time in s since 1970 UTC.

    The first one of an address makes a record at the next ``take``, the others one when the hour is over.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[_RefusedSignIn, int] = {}
        self._recorded: set[_RefusedSignIn] = set()
        self._began = float("inf")
        """When the hour of the counts began: at the first one."""

    def count(self, address: str, reason: str) -> None:
        """Count one. The reason has no part of the token."""
        refusal = _RefusedSignIn(address[:LONGEST_TEXT], reason[:LONGEST_TEXT])
        now = self._clock()
        with self._lock:
            if refusal not in self._counts and len(self._counts) >= MOST_ADDRESSES:
                refusal = _OTHERS
            self._began = min(self._began, now)
            self._counts[refusal] = self._counts.get(refusal, 0) + 1

    def take(self, server: str) -> list[NewAuditRecord]:
        """Return the records that are due: the first refusals, and after an hour the others."""
        now = self._clock()
        with self._lock:
            is_over = now - self._began >= HOUR
            due = {key: count for key, count in self._counts.items() if is_over or key not in self._recorded}
            due = {key: count for key, count in due.items() if count}
            self._recorded = set() if is_over else self._recorded | due.keys()
            # Keys stay until the hour is over: they are the bound.
            self._counts = {} if is_over else {**self._counts, **dict.fromkeys(due, 0)}
            self._began = float("inf") if is_over else self._began
        return [
            NewAuditRecord(
                time=now, verb=REFUSED, address=key.address, why=key.reason, times=count, server=server
            )
            for key, count in due.items()
        ]

    def restore(self, records: list[NewAuditRecord]) -> None:
        """Count again what could not be written."""
        with self._lock:
            for record in records:
                key = _RefusedSignIn(record.address, record.why)
                self._counts[key] = self._counts.get(key, 0) + record.times
                self._recorded.discard(key)


class Memory:
    """Remembers which events came within some time, and how often. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._counts: TTLCache[Hashable, int] = TTLCache(MOST_KEYS, seconds, clock)
        self._lock = threading.Lock()

    def count(self, key: Hashable) -> int:
        """Return how often an event came since its first time."""
        with self._lock:
            return int(self._counts.get(key, 0))

    def add(self, key: Hashable) -> None:
        """Count an event once more."""
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + 1
