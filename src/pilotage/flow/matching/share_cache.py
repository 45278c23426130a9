"""The use of global shares, as one process caches it, and counts it again after some seconds."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pilotage.model.records.federation import Federation
from pilotage.model.records.work import Job, Requirements
from pilotage.model.values.durations import is_fresh
from pilotage.policies.pilots.share_turns import ShareTurns
from pilotage.policies.pilots.task_queue_columns import Draw
from pilotage.store import Store


class ShareCache:
    """Which global share is next. Safe to use from many threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._turns: ShareTurns | None = None
        self._since: tuple[int, float] = (0, 0.0)

    def refresh(self, federation: Federation, version: int, time: float) -> None:
        """Count jobs at pilots again if the cache is old or from another version of the federation."""
        former_version, since = self._since
        if former_version == version and is_fresh(since, time):
            return
        turns = ShareTurns.of(federation.shares, self._store.matches.job_counts)
        with self._lock:
            self._turns, self._since = turns, (version, time)

    @contextmanager
    def turns(self) -> Iterator[ShareTurns | None]:
        """Yield the shares' use for one draw, to one thread at a time; None if there is no choice."""
        with self._lock:
            yield self._turns

    def note(self, jobs: Iterable[Job]) -> None:
        """Count jobs of other queues that pilots got."""
        self._count((job.share for job in jobs), 1)

    def take_back(self, missing: Iterable[Draw]) -> None:
        """Subtract drawn jobs that were not given."""
        self._count((Requirements.from_text(draw.requirements).share for draw in missing), -1)

    def _count(self, shares: Iterable[str], jobs: int) -> None:
        with self.turns() as turns:
            if turns is not None:
                for share in shares:
                    turns.give(share, jobs)
