"""The pauses of queues and nodes, as one process's matches know them (F2)."""

import threading
from collections.abc import Callable, Iterable, Sequence

from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.records.failures import Failure
from pilotage.model.records.work import Job, Pilot
from pilotage.model.rules.black_holes import Rest, rests
from pilotage.model.values.freshness import is_fresh
from pilotage.pilots.tries import OPEN, Admission, Tries, TryKey
from pilotage.store import Store
from pilotage.store.matching.match_requests import ClaimResult


class Resting:
    """Reads failures again when this process has committed one, or after some seconds.

    Safe to use from many threads.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._rests: tuple[Rest, ...] = ()
        self._tries = Tries(fast=0.0)
        store.listeners.append(self._heard)

    def admission(self, pilot: Pilot, time: float) -> Admission:
        """Return the admission of a pilot: everything, one trial job, or nothing."""
        with self._lock:
            if not is_fresh(self._read_at, time):
                # Set before reading: a failure committed meanwhile resets it to None.
                self._read_at = time
                guard = self._store.federation().guard
                self._rests = rests(self._store.snapshots.failures(time), guard)
                self._tries.fast = guard.fast
            if not self._rests:
                return OPEN
            admission = self._tries.admission(self._rests, pilot.queue, pilot.place, time)
        return self._with_held(pilot.queue, admission)

    def _with_held(self, queue: str, admission: Admission) -> Admission:
        """Complete an admission with the waiting jobs of the tasks that it names."""
        tasks = admission.closed_tasks | admission.trying_tasks
        return admission.with_waiting(self._store.matches.waiting(queue, sorted(tasks)) if tasks else ())

    def tried(
        self,
        pilot: Pilot,
        requirements: Iterable[str],
        time: float,
        commit: Callable[[], Sequence[ClaimResult]],
    ) -> Sequence[ClaimResult]:
        """Give a pilot jobs of task queues. A trial counts only if the pilot gets one of its jobs."""
        tries = self.begin(pilot, requirements, time)
        given: Sequence[ClaimResult] = ()
        try:
            given = commit()
        finally:
            self.settle(tries, [job for one in given for job in one.jobs])
        return given

    def begin(self, pilot: Pilot, requirements: Iterable[str], time: float) -> list[TryKey]:
        """Record that a pilot is about to get jobs of task queues. Return the possible trials."""
        if not self._rests:
            return []
        with self._lock:
            return self._tries.begin(self._rests, pilot.queue, pilot.place, requirements, time)

    def settle(self, tries: Sequence[TryKey], given: Iterable[Job]) -> None:
        """Forget the trials without a job: others took it, or it was a spare."""
        if tries:
            with self._lock:
                self._tries.settle(tries, given)

    def _heard(self, decision: Decision, _: Committed) -> None:
        for change in decision.changes:
            if isinstance(change, Move) and any(
                isinstance(record, Failure) for records in change.creates.values() for record in records
            ):
                self._read_at = None
                return
