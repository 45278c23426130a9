"""Threads that process small files one after another, as many threads as their shares have slots."""

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from pilotage.model.values.slot_parts import BUNDLE, whole

Task = Callable[[], None]
"""Fetches one file."""


@dataclass(slots=True)
class _Share:
    waiting: deque[Task] = field(default_factory=deque)
    lanes: int = 0
    busy: int = 0


class SmallFileThreads:
    """Small files wait here by share. A bundle of them has one lane, so that a slot is one stream of bytes.

    No share waits for another's files, so an emergency begins immediately (D5).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shares: defaultdict[str, _Share] = defaultdict(_Share)

    def add(self, share: str, task: Task, bundle: int = BUNDLE) -> None:
        """Queue a file. A ``bundle`` of them has one lane."""
        with self._lock:
            line = self._shares[share]
            line.waiting.append(task)
            if line.lanes >= whole(line.busy + len(line.waiting), bundle):
                return
            line.lanes += 1
        threading.Thread(target=self._run, args=(share,), name=f"lane-{share}", daemon=True).start()

    def _run(self, share: str) -> None:
        line = self._shares[share]
        while True:
            with self._lock:
                if not line.waiting:
                    line.lanes -= 1
                    if not line.lanes:
                        del self._shares[share]
                    return
                task = line.waiting.popleft()
                line.busy += 1
            try:
                task()
            finally:
                with self._lock:
                    line.busy -= 1
