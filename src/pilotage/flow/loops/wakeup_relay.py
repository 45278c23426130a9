"""The relay: one process's commits wake the loops of the others that share its store."""

import logging
import secrets
import threading
from collections.abc import Callable, Iterable
from contextlib import closing

from pilotage.flow.background import BackgroundService
from pilotage.flow.loops.wakeups import Subject, Wakeups, arrivals
from pilotage.flow.step import Step
from pilotage.model.documents.decision import Committed, Decision
from pilotage.store import NoticesLost, Store

log = logging.getLogger(__name__)

TOGETHER = 0.05
"""Seconds between two notices of a process. One notice covers everything in between."""

LISTENED = 1.0
"""Seconds between two checks whether the listener should end."""

PAUSE = 2.0
"""Seconds before a lost connection is opened again."""


class WakeupRelay(BackgroundService):
    """Sends other processes notices of this one's commits, and wakes its loops at their notices.

    ``steps`` are all steps that any process may run. A notice names kinds and states but no records, so its
    length is bounded. ``on_news`` is called at each. If a connection is lost, a loop's next period finds the
    missed records. When listening starts again, all loops wake. Stores without notices (SQLite) rely on the
    periods.
    """

    def __init__(
        self,
        store: Store,
        wakeups: Wakeups,
        steps: Iterable[Step],
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        threads = {"relay-tell": self._tell, "relay-listen": self._listen}
        # The others' periods find the rest.
        super().__init__(threads, patience=2 * LISTENED)
        self._on_news = on_news
        self._store = store
        self._wakeups = wakeups
        self._subjects = {_word(subject): subject for step in steps for subject in step.wakes_on}
        self._sender = secrets.token_hex(4)
        self._news: set[str] = set()
        self._lock = threading.Lock()
        self._has_news = threading.Event()

    def start(self) -> None:
        """Start sending and listening, if the store supports notices."""
        if self._store.notices.are_carried:
            self._store.listeners.append(self._committed)
            super().start()

    def wake(self) -> None:
        """Send a notice now."""
        self._has_news.set()

    def _committed(self, decision: Decision, committed: Committed) -> None:
        words = {_word(subject) for subject in arrivals(decision, committed)} & self._subjects.keys()
        if words:
            with self._lock:
                self._news |= words
        # Also if it wakes no loop: readers of events want to know.
        self._has_news.set()

    def _tell(self) -> None:
        while not self._stopping.is_set():
            self._has_news.wait()
            self._has_news.clear()
            with self._lock:
                words, self._news = self._news, set()
            try:
                self._store.notices.send(" ".join([self._sender, *sorted(words)]))
            except Exception:
                log.exception("could not wake other processes: they look at their next period")
            self._stopping.wait(TOGETHER)

    def _listen(self) -> None:
        while not self._stopping.is_set():
            try:
                with closing(self._store.notices.listen()) as ears:
                    # Notices sent before this connection are lost.
                    self._wakeups.wake_all()
                    while not self._stopping.is_set():
                        for words in ears.receive(LISTENED):
                            self._receive(words)
            except NoticesLost as error:
                log.warning(
                    "cannot receive wake-ups from other processes: %s; trying again in %g s", error, PAUSE
                )
                self._stopping.wait(PAUSE)

    def _receive(self, words: str) -> None:
        sender, *subjects = words.split()
        if sender != self._sender:
            self._on_news()
            self._wakeups.arrived(self._subjects[word] for word in subjects if word in self._subjects)


def _word(subject: Subject) -> str:
    kind, state = subject
    return f"{kind}:{state}"
