"""Questions to batch systems: resources for a pilot (P8), their load (P6), and which pilots are ours (M5)."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from math import inf
from typing import TypeVar

from pilotage.flow.outside.workers import WorkersPort
from pilotage.log_lines import bound
from pilotage.model.circuit_breakers.breaker import CircuitBreaker, FailedBatch, LiftedBreaker, Tripped
from pilotage.model.records.federation import Queue
from pilotage.model.records.observations import ListMatch, ServerReport
from pilotage.model.records.states import LIVE_PILOTS
from pilotage.model.records.work import Pilot
from pilotage.ports.computing import (
    Capacity,
    ComputingElementPort,
    ListMatching,
    PilotSize,
    PilotStatus,
    counts,
)

log = logging.getLogger(__name__)
T = TypeVar("T")

KEPT_FOR = 300.0
"""Seconds for which an answer to a list-match is valid (P8)."""

LONGEST_ERROR = 300
"""Most characters kept of a server's error."""

PERIOD = 60.0
"""Seconds between two questions about the capacity of a server."""

References = Mapping[tuple[str, str], Collection[str]]
"""A batch system's references of our pilots, by queue and credential."""

Poll = Callable[[str, Collection[str]], Mapping[str, PilotStatus]]
"""Asks a batch system about pilots with their credential."""

NO_REFERENCES: References = {}


def _report(capacity: Capacity, poll: Poll, references: References) -> ServerReport:
    """Return a batch system's jobs, and which of our pilots are among them."""
    by_credential: dict[str, list[str]] = defaultdict(list)
    by_queue: dict[str, list[str]] = defaultdict(list)
    for (queue, credential), of_queue in references.items():
        by_credential[credential] += of_queue
        by_queue[queue] += of_queue
    statuses: dict[str, PilotStatus] = {}
    for credential, submitted in by_credential.items():
        statuses |= poll(credential, submitted) if submitted else {}
    pilot_counts = {
        queue: counts(
            statuses[reference].state
            for reference in of_queue
            if reference in statuses and statuses[reference].state != "unknown"
        )
        for queue, of_queue in by_queue.items()
    }
    return ServerReport(
        queue="",
        slots=capacity.slots,
        running=capacity.running,
        waiting=capacity.waiting,
        everybody=capacity.everybody,
        scope=capacity.scope,
        pilots={queue: running + waiting for queue, (running, waiting) in pilot_counts.items()},
        submitting={queue: waiting for queue, (_, waiting) in pilot_counts.items()},
    )


class Inquiries:
    """Questions that do not wait for their answers. The next pass finds these."""

    def __init__(
        self,
        workers: WorkersPort,
        adapter: Callable[[Queue, str, str], ComputingElementPort],
        on_news: Callable[[], None],
    ) -> None:
        self._workers = workers
        self._adapter = adapter
        self._on_news = on_news
        self._lock = threading.Lock()
        self._matches: dict[ListMatch, tuple[float, ListMatch]] = {}
        self._silent: dict[tuple[str, str], Tripped[FailedBatch]] = {}
        self._reports: dict[tuple[str, str], ServerReport] = {}
        self._unanswered: dict[tuple[str, str], ServerReport] = {}
        self._surveyed: dict[tuple[str, str], float] = {}
        self._asking: set[object] = set()

    def list_matches(self, now: float) -> tuple[ListMatch, ...]:
        """Return answers that are still valid."""
        with self._lock:
            self._matches = {
                question: (time, answer)
                for question, (time, answer) in self._matches.items()
                if now - time < KEPT_FOR
            }
            return tuple(answer for _, answer in self._matches.values())

    def silent_servers(self) -> tuple[CircuitBreaker, ...]:
        """The circuit breakers of servers that did not answer the last list-match."""
        with self._lock:
            return tuple(
                silent.breaker("list-match", place, silent.last.error if silent.last else "")
                for place, silent in sorted(self._silent.items())
            )

    def lift(self, lifted: Iterable[LiftedBreaker]) -> None:
        """Forget silence of servers after their breakers were lifted: the next failure is the first."""
        with self._lock:
            for breaker in lifted:
                silent = self._silent.get(breaker.place) if breaker.kind == "list-match" else None
                if silent and silent.since <= breaker.time:
                    del self._silent[breaker.place]

    def server_reports(self) -> tuple[ServerReport, ...]:
        """Return the last report of each server on its batch system."""
        with self._lock:
            return tuple(self._reports[key] for key in sorted(self._reports))

    def unanswered(self) -> tuple[ServerReport, ...]:
        """Return the last report of each server that did not answer the last question, and why."""
        with self._lock:
            return tuple(self._unanswered[key] for key in sorted(self._unanswered))

    def ask(
        self,
        queue: Queue,
        place: str,
        question: ListMatch,
        now: float,
        open_for: Callable[[int], float],
    ) -> None:
        """Ask a server for resources for a pilot, unless a question is pending.

        One that does not answer trips its circuit breaker, which stays open for so many s after so many
        openings.
        """
        key = (queue.name, question.server)

        def answered(resources: int | None) -> None:
            self._matches[question] = (now, replace(question, resources=resources))
            self._silent.pop(key, None)

        def failed(error: BaseException) -> None:
            error_text = " ".join(str(error).split())[:LONGEST_ERROR] or repr(error)
            # Questions of one pass fail together, and count once: it is open after the first.
            before = self._silent.get(key, Tripped())
            self._silent[key] = before.after(FailedBatch(now, now, error_text), lambda _: True, open_for)

        def call() -> int | None:
            adapter = self._adapter(queue, question.server, "")
            if not isinstance(adapter, ListMatching):
                return None
            size = PilotSize(cores=question.cores, memory=question.memory, walltime=question.walltime)
            return adapter.resources(size)

        with bound(queue=queue.name):
            self._call(question, place, call, answered, failed)

    def survey(
        self,
        queue: Queue,
        place: str,
        server: str,
        now: float,
        references: References = NO_REFERENCES,
        every: float = PERIOD,
    ) -> None:
        """Ask a server for its batch system's load, once per ``every`` s, answered or not.

        ``references`` are our recorded pilots there, also for other queues that may lead to the same batch
        system. Pilots that it still has afterwards were among the jobs that it counted (M5).
        """
        key = (queue.name, server)
        with self._lock:
            if now - self._surveyed.get(key, -inf) < min(every, PERIOD):
                return
            self._surveyed[key] = now
            scope_references = self._of_scope(key, references)

        def call() -> ServerReport:
            capacity = self._adapter(queue, server, "").capacity()
            report = _report(capacity, partial(self._poll, queue, server), scope_references)
            return replace(report, queue=queue.name, server=server, answered=now)

        def answered(report: ServerReport) -> None:
            self._unanswered.pop(key, None)
            self._reports[key] = report

        def failed(error: BaseException) -> None:
            last_report = self._reports.get(key) or ServerReport(queue=queue.name, server=server)
            self._unanswered[key] = replace(last_report, error=f"{type(error).__name__}: {error}"[:300])

        with bound(queue=queue.name):
            self._call(key, place, call, answered, failed)

    def _poll(
        self, queue: Queue, server: str, credential: str, references: Collection[str]
    ) -> Mapping[str, PilotStatus]:
        """Ask about pilots with their credential. One of a person or group that fails stops no others: its
        pilots count as not listed."""
        try:
            return self._adapter(queue, server, credential).poll(references)
        except (OSError, LookupError) as error:
            if not credential:
                raise
            log.warning("queue %s: the pilots of %s are not counted: %r", queue.name, credential, error)
            return {}

    def _of_scope(self, key: tuple[str, str], references: References) -> References:
        """Return the references of queues that may count the same jobs as a queue's server."""
        queue, server = key
        scopes = {name: report.scope for (name, of), report in self._reports.items() if of == server}
        scope = scopes.get(queue)
        return {
            (name, credential): of_queue
            for (name, credential), of_queue in references.items()
            if name == queue or scope is None or scopes.get(name, scope) == scope
        }

    def keep(self, queues: Iterable[str]) -> None:
        """Forget queues that left the federation."""
        names = set(queues)
        with self._lock:
            self._reports = {key: report for key, report in self._reports.items() if key[0] in names}
            self._silent = {key: silent for key, silent in self._silent.items() if key[0] in names}
            self._unanswered = {key: report for key, report in self._unanswered.items() if key[0] in names}
            self._surveyed = {key: time for key, time in self._surveyed.items() if key[0] in names}

    def _call(
        self,
        key: object,
        place: str,
        call: Callable[[], T],
        answered: Callable[[T], None],
        failed: Callable[[BaseException], None] | None = None,
    ) -> None:
        with self._lock:
            if key in self._asking:
                return
            self._asking.add(key)

        def done(future: "Future[T]") -> None:
            error = future.exception()
            with self._lock:
                self._asking.discard(key)
                if error is None:
                    answered(future.result())
                elif failed is not None:
                    failed(error)
            if error is None or failed is not None:
                self._on_news()
            if error is not None:
                log.warning("%s: not answered: %r", place, error)

        self._workers.call(place, call).add_done_callback(done)


def submitted_beside(
    pilots: Sequence[Pilot], queues: Iterable[Queue], queue: Queue, server: str
) -> dict[tuple[str, str], list[str]]:
    """Return the references of live pilots at a queue's server, by queue and credential.

    Other queues of its site may lead to the same batch system, if their computing elements have its kind.
    """
    references: dict[tuple[str, str], list[str]] = {
        (candidate.name, ""): []
        for candidate in queues
        if candidate.site == queue.site and _kind(candidate) == _kind(queue)
    }
    for pilot in pilots:
        is_there = pilot.broker == server and (pilot.queue, "") in references
        if is_there and pilot.state in LIVE_PILOTS and pilot.reference:
            references.setdefault((pilot.queue, pilot.credential), []).append(pilot.reference)
    return references


def _kind(queue: Queue) -> str:
    return queue.computing_element.kind if queue.computing_element else ""
