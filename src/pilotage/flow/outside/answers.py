"""Answers to calls to the outside: the next pass reads them, and they stay until it has committed them."""

import threading
from collections.abc import Callable, Collection, Iterable
from typing import Any, Generic, TypeVar

S = TypeVar("S")


class OutsideAnswers(Generic[S]):
    """Answers by ``key``, and the keys of calls without one. Safe to use from many threads.

    ``on_news`` is called when there is something to read.
    """

    def __init__(self, key: Callable[[S], Any], on_news: Callable[[], None]) -> None:
        self._key, self._on_news = key, on_news
        self._lock = threading.Lock()
        self._pending: set[Any] = set()
        self._news: dict[Any, S] = {}

    def __contains__(self, key: object) -> bool:
        """Return whether a call is under way, or has an answer that is not recorded."""
        with self._lock:
            return key in self._pending or key in self._news

    @property
    def in_hand(self) -> int:
        """Return how many calls are under way, or have answers that are not recorded."""
        with self._lock:
            return len(self._pending | self._news.keys())

    def news(self) -> tuple[S, ...]:
        """Return the answers that are not forgotten yet, by key."""
        with self._lock:
            return tuple(self._news[key] for key in sorted(self._news))

    def forget(self, news: Collection[S]) -> None:
        """Drop answers that a commit has processed. Newer ones may have come since its pass read these."""
        with self._lock:
            for answer in news:
                if self._news.get(self._key(answer)) == answer:
                    del self._news[self._key(answer)]

    def begin(self, keys: Iterable[Any]) -> None:
        """Note calls that start now."""
        with self._lock:
            self._pending.update(keys)

    def add(self, news: Collection[S]) -> None:
        """Add answers, which end their calls."""
        with self._lock:
            answers = {self._key(answer): answer for answer in news}
            self._pending -= answers.keys()
            self._news |= answers
        self._on_news()
