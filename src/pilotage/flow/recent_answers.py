"""Expensive answers: whoever asks again within seconds gets the same."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

KNOWN_FOR = 10.0
"""Seconds for which an answer is cached."""

MOST_KNOWN = 1000
"""Most cached answers, the latest ones."""


class RecentAnswers:
    """Lines of text about records, by whatever tells their versions apart. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, tuple[float, Sequence[str]]] = OrderedDict()

    def get(self, key: Hashable, time: float, make: Callable[[], Sequence[str]]) -> Sequence[str]:
        """Return the cached answer of the last ``KNOWN_FOR`` s about a record, else a new one."""
        with self._lock:
            since, lines = self._known.get(key, (None, ()))
        if since is not None and 0 <= time - since < KNOWN_FOR:
            return lines
        lines = make()
        with self._lock:
            self._known[key] = time, lines
            self._known.move_to_end(key)
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return lines
