"""Expensive answers: a second request within seconds gets the same one."""

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from cachetools import LRUCache

from pilotage.model.values.durations import is_fresh

KNOWN_FOR = 10.0
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
        """Return the cached answer of the last ``KNOWN_FOR`` s about a record, else a new one."""
        with self._lock:
            since, answers = self._answers.get(key, (None, ()))
        if not is_fresh(since, time, KNOWN_FOR):
            answers = make()
            with self._lock:
                self._answers[key] = time, answers
        return answers
