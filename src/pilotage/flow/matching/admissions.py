"""Which jobs the matches of one process may give to a pilot: circuit breakers (F2, F4), readable secrets."""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from pilotage.flow.cache import Cache
from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.circuit_breakers.jobs import job_breakers
from pilotage.model.circuit_breakers.storages import FailedDelivery, storage_breakers
from pilotage.model.documents.decision import Change, Committed, Decision, Forget, Move
from pilotage.model.records.failures import Failure
from pilotage.model.records.work import Job, Pilot
from pilotage.policies.pilots.probes import OPEN, Admission, ProbeKey, Probes, of_unwritable_storages
from pilotage.store import Store
from pilotage.store.matching.match_requests import ClaimResult

UnreadableOwners = Callable[[float], Collection[tuple[str, str]]]
"""Returns people, by VO and name, with secrets that this server cannot decrypt, at a time in s since 1970."""


class Admissions:
    """Reads failures again when this process has committed one, or after some seconds.

    Safe to use from many threads.
    """

    def __init__(self, store: Store, unreadable: UnreadableOwners = lambda _: ()) -> None:
        self._store = store
        self._unreadable = unreadable
        self._lock = threading.Lock()
        self._breakers = Cache(self._tripped)
        self._probes = Probes(fast=0.0)
        store.listeners.append(self._notice)

    def admission(self, pilot: Pilot, time: float) -> Admission:
        """Return the admission of a pilot: all, one job as a probe, or none; and owners to leave out.

        The server cannot decrypt the secrets of these owners.
        """
        answer, unreadable = self._of_breakers(pilot, time), self._unreadable(time)
        return replace(answer, unreadable=unreadable) if unreadable else answer

    def _of_breakers(self, pilot: Pilot, time: float) -> Admission:
        with self._lock:
            breakers = self._breakers.at(time)
            if not breakers:
                return OPEN
            admission = self._probes.admission(breakers, pilot.queue, pilot.place, time)
        return self._with_held(pilot.queue, admission)

    def _tripped(self, time: float) -> tuple[CircuitBreaker, ...]:
        federation = self._store.federation()
        self._probes.fast = federation.guard.fast
        failed = self._store.transfer_queries.failed_deliveries()
        return (
            *job_breakers(self._store.snapshots.failures(time), federation),
            *of_unwritable_storages(federation, storage_breakers(failed, federation.staging, time)),
        )

    def _with_held(self, queue: str, admission: Admission) -> Admission:
        """Complete an admission with the numbers of waiting jobs of its closed and probing tasks."""
        tasks = admission.closed_tasks | admission.probing_tasks
        return admission.with_waiting(self._store.matches.waiting(queue, sorted(tasks)) if tasks else ())

    def probed(
        self,
        pilot: Pilot,
        requirements: Iterable[str],
        time: float,
        commit: Callable[[], Sequence[ClaimResult]],
    ) -> Sequence[ClaimResult]:
        """Give a pilot jobs of task queues; a probe counts only for jobs that it gets."""
        probes = self.begin(pilot, requirements, time)
        results: Sequence[ClaimResult] = ()
        try:
            results = commit()
        finally:
            self.settle(probes, [job for result in results for job in result.jobs])
        return results

    def begin(self, pilot: Pilot, requirements: Iterable[str], time: float) -> list[ProbeKey]:
        """Note that a pilot is about to get jobs of task queues. Return the possible probes among them."""
        if not (breakers := self._breakers.at(time)):
            return []
        with self._lock:
            return self._probes.begin(breakers, pilot.queue, pilot.place, requirements, time)

    def settle(self, probes: Sequence[ProbeKey], jobs: Iterable[Job]) -> None:
        """Forget the probes of unassigned jobs: others took them, or they were spares."""
        if probes:
            with self._lock:
                self._probes.settle(probes, jobs)

    def _notice(self, decision: Decision, _: Committed) -> None:
        if any(_is_news(change) for change in decision.changes):
            self._breakers.forget()


def _is_news(change: Change) -> bool:
    """Return whether a change adds a failure, or closes a breaker."""
    if isinstance(change, Forget):
        return bool(change.lifted or change.failed_at)
    return isinstance(change, Move) and any(
        isinstance(record, Failure | FailedDelivery)
        for records in change.creates.values()
        for record in records
    )
