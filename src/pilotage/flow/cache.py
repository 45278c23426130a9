"""Values that other processes change too, and expensive answers, cached by one process."""

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from cachetools import LRUCache

from pilotage.model.values.durations import KNOWN_FOR, is_fresh

T = TypeVar("T")


class Cache(Generic[T]):
    """Calls ``read`` with the time, and caches the value for some seconds.

    Safe to use from many threads: one reads, and the others wait for it. If ``read`` raises, the next one
    reads again.
    """

    def __init__(self, read: Callable[[float], T], seconds: float = KNOWN_FOR) -> None:
        self._read, self._seconds = read, seconds
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._value: T

    def at(self, time: float) -> T:
        """Return the value at a time in s since 1970."""
        with self._lock:
            if not is_fresh(self._read_at, time, self._seconds):
                # Set before reading, so that a call of ``forget`` while it reads counts.
                self._read_at = time
                try:
                    self._value = self._read(time)
                except BaseException:
                    self._read_at = None
                    raise
            return self._value

    def forget(self) -> None:
        """Let the next call of ``at`` read again. Never waits."""
        self._read_at = None


RECENT_FOR = 10.0
"""Seconds for which an answer is cached."""

MOST_KNOWN = 1000
"""Most cached answers, the latest ones."""

Answer = TypeVar("Answer")


class RecentAnswers(Generic[Answer]):
    """Answers about records, by a key that changes with their version. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: LRUCache[Hashable, tuple[float, Sequence[Answer]]] = LRUCache(MOST_KNOWN)

    def get(self, key: Hashable, time: float, make: Callable[[], Sequence[Answer]]) -> Sequence[Answer]:
        """Return the cached answer of the last ``RECENT_FOR`` s about a record, else a new one."""
        with self._lock:
            since, answers = self._answers.get(key, (None, ()))
        if not is_fresh(since, time, RECENT_FOR):
            answers = make()
            with self._lock:
                self._answers[key] = time, answers
        return answers
