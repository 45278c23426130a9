"""The rests of queues and nodes as the matches of one process know them (F2)."""

import threading
from collections.abc import Callable, Iterable, Sequence

from pilotage.model.black_holes import EVERYBODY, Rest, rests
from pilotage.model.decision import Committed, Decision, Move
from pilotage.model.failures import Failure
from pilotage.model.work import Job, Pilot, Requirements
from pilotage.pilots.tries import OPEN, Admission, Tries, TryKey, Whose
from pilotage.store import Store
from pilotage.store.match_requests import Given

KNOWN_FOR = 5.0
"""Seconds after which failures are read anew: another server may have heard of some."""


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
        """Return the admission of a pilot: all, one job that tries, or nothing."""
        with self._lock:
            if self._read_at is None or not 0 <= time - self._read_at <= KNOWN_FOR:
                # Set before reading: a failure that is committed meanwhile makes it None again.
                self._read_at = time
                guard = self._store.federation().guard
                self._rests = rests(self._store.snapshots.failures(time), guard)
                self._tries.fast = guard.fast
            if not self._rests:
                return OPEN
            return self._tries.admission(self._rests, pilot.queue, pilot.place, time)

    def tried(
        self, pilot: Pilot, requirements: Iterable[str], time: float, give: Callable[[], Given]
    ) -> Given:
        """Give a pilot jobs of task queues; of owners of whom it is given none, nothing counts as a try."""
        tries = self.begin(pilot, requirements, time)
        jobs: Sequence[Job] = ()
        try:
            given = give()
            jobs = given.jobs
        finally:
            self.take_back(tries, jobs)
        return given

    def begin(self, pilot: Pilot, requirements: Iterable[str], time: float) -> list[TryKey]:
        """Note that a pilot is about to be given jobs of task queues; returns the tries that these are."""
        if not self._rests:
            return []
        with self._lock:
            return [
                key
                for whose in sorted(_owners(requirements))
                for key in self._tries.begin(self._rests, pilot.queue, pilot.place, whose, time)
            ]

    def take_back(self, tries: Sequence[TryKey], given: Iterable[Job]) -> None:
        """Forget the tries of owners of whom no job was given: others took them, or they were spares."""
        if not tries:
            return
        owners = _owners(job.requirements for job in given)
        served = {*owners, EVERYBODY} if owners else owners
        with self._lock:
            self._tries.take_back(key for key in tries if key[-1] not in served)

    def _heard(self, decision: Decision, _: Committed) -> None:
        for change in decision.changes:
            if isinstance(change, Move) and any(
                isinstance(record, Failure) for records in change.creates.values() for record in records
            ):
                self._read_at = None
                return


def _owners(requirements: Iterable[str]) -> set[Whose]:
    wanted = (Requirements.from_text(text) for text in set(requirements))
    return {(one.vo, one.owner) for one in wanted}
