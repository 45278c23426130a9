"""Computing elements for steps: adapters are cached, calls never block, and answers come later."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from operator import attrgetter

from pilotage.adapters.computing import credential_files
from pilotage.flow.outside.answers import OutsideAnswers
from pilotage.flow.outside.inquiries import Inquiries
from pilotage.flow.outside.submit_pools import SubmitPools
from pilotage.flow.outside.workers import WorkersPort
from pilotage.log_lines import bound
from pilotage.model.documents.world import QueueReport, World
from pilotage.model.records.federation import ComputingElement, Federation, Queue
from pilotage.model.records.observations import PilotSighting, PilotSubmission, UnusableCredential
from pilotage.model.records.states import PilotState
from pilotage.model.records.work import Pilot
from pilotage.policies.pilots import submissions
from pilotage.ports.adapters import AdapterError
from pilotage.ports.computing import (
    ComputingElementPort,
    LeadingBack,
    LeftBehind,
    PilotOrder,
    PilotStatus,
    Submitted,
    pool_log,
    submitting,
)

log = logging.getLogger(__name__)

MADE_WITHIN = 5.0
"""Seconds that an adapter has to be ready. Otherwise its queue counts as one without pilots."""

SERVED_LATELY = 3 * 3600.0
"""Seconds for which a calling pilot shows that its queue has pilots (B26)."""

Keep = Callable[[Queue, str, Pilot, Sequence[LeftBehind]], None]
"""Records what a pilot left in its spool, by queue and server."""

Load = Callable[[ComputingElement], ComputingElementPort]


class Elements:
    """The computing elements of a federation's queues.

    ``submissions`` are answers to submissions, and ``sightings`` pilots that ended, are stuck, or wait for a
    new reason. ``fenced`` workers submit and cancel pilots. ``keep`` records what pilots left in spools.
    """

    def __init__(
        self,
        load: Load,
        workers: WorkersPort,
        on_news: Callable[[], None],
        submits: bool = True,
        fenced: WorkersPort | None = None,
        keep: Keep = lambda *_: None,
    ) -> None:
        self._load = load
        self._workers, self._fenced = workers, fenced or workers
        self.pools = SubmitPools(self._fenced)
        self.inquiries = Inquiries(workers, self.adapter, on_news)
        self._keep = keep
        self.submissions = OutsideAnswers[PilotSubmission](attrgetter("pilot"), on_news)
        self.sightings = OutsideAnswers[PilotSighting](attrgetter("pilot"), on_news)
        self._submits = submits
        self._lock = threading.Lock()
        self._adapters: dict[str, tuple[ComputingElement, ComputingElementPort]] = {}
        self._closed: dict[str, float] = {}
        self._polling: set[str] = set()
        self._lost: set[str] = set()
        self._problems: dict[str, tuple[ComputingElement, str, bool]] = {}
        self._tried: set[str] = set()

    def with_list_matches(self, world: World) -> World:
        """Return the world with the servers' answers to list-match, and the silent servers (P8)."""
        self.inquiries.lift(world.lifted_breakers)
        matches, silent = self.inquiries.list_matches(world.time), self.inquiries.silent_servers()
        return replace(world, list_matches=matches, silent_servers=silent)

    def submit(
        self, queue: Queue, server: str, pool: str, orders: Sequence[PilotOrder], credential: str = ""
    ) -> None:
        """Let a submit pool submit pilots to a server of a queue's computing element, with a credential."""
        named = pool_log(pool)

        def done(future: "Future[Sequence[Submitted]]") -> None:
            error = future.exception()
            if error is not None:
                named.warning("%s: submission of %d pilots failed: %r", place, len(orders), error)
                results = [_failed(order, error) for order in orders]
            else:
                results = [
                    _submission(order, answer) for order, answer in zip(orders, future.result(), strict=True)
                ]
                named.info(
                    "%s: %d of %d pilots submitted", place, sum(not t.error for t in results), len(results)
                )
            self.submissions.add(results)

        def submission() -> Sequence[Submitted]:
            with submitting(pool):
                answers = self.adapter(queue, server, credential).submit(orders)
            if len(answers) != len(orders):
                raise ValueError(f"{len(orders)} orders have {len(answers)} answers")
            return answers

        place = place_of(queue, server, credential)
        self.submissions.begin(order.pilot for order in orders)
        with bound(queue=queue.name):
            self.pools.submit(pool, place, submission).add_done_callback(done)

    def closed_tunnels(self, federation: Federation, now: float) -> Iterator[tuple[str, float]]:
        """Yield the queues with pilots that cannot call, because this server's tunnel is closed, and since
        when."""
        for queue in federation.queues:
            for server in servers_of(queue.computing_element) if queue.computing_element else ():
                place = place_of(queue, server)
                _, adapter = self._adapters.get(place, (None, None))
                seconds = adapter.closed_for() if isinstance(adapter, LeadingBack) else 0.0
                if seconds > 0:
                    yield queue.name, self._closed.setdefault(place, now - seconds)
                else:
                    self._closed.pop(place, None)

    def look(self, queue: Queue, pilots: Iterable[Pilot], lost_since: float) -> None:
        """Ask about a queue's pilots, each server about its own, with the credentials of their submission.

        Pilots that were missing by ``lost_since``, in s since 1970, and still are, are news again.
        """
        for (server, credential), there in _by_entrance(pilots).items():
            with bound(queue=queue.name):
                self._look(queue, server, credential, {pilot.reference: pilot for pilot in there}, lost_since)

    def _look(
        self,
        queue: Queue,
        server: str,
        credential: str,
        by_reference: Mapping[str, Pilot],
        lost_since: float,
    ) -> None:
        """Ask one server with one credential, unless the last question is not answered yet."""
        place = place_of(queue, server, credential)
        with self._lock:
            if place in self._polling:
                return
            self._polling.add(place)

        def done(future: "Future[Mapping[str, PilotStatus]]") -> None:
            error = future.exception()
            self._tell(place, error)
            with self._lock:
                self._polling.discard(place)
            # No answer of a batch system is no news about pilots: silence never counts as an end.
            if not error and (news := _news(future.result(), by_reference, lost_since)):
                self.sightings.add(news)

        def poll() -> Mapping[str, PilotStatus]:
            statuses = self.adapter(queue, server, credential).poll(by_reference)
            for reference, status in statuses.items():
                if status.results:
                    # Do this before reporting its end: its attempts must not seem lost.
                    self._keep(queue, server, by_reference[reference], status.results)
            return statuses

        call = self._workers.call(place, poll)
        call.add_done_callback(done)

    def cancel(self, queue: Queue, pilots: Iterable[Pilot]) -> None:
        """End pilots at their computing element, with the credentials of their submission."""
        for (server, credential), there in _by_entrance(pilots).items():
            with bound(queue=queue.name):
                self._cancel(queue, server, credential, [pilot.reference for pilot in there])

    def _cancel(self, queue: Queue, server: str, credential: str, references: Sequence[str]) -> None:
        place = place_of(queue, server, credential)

        def done(future: "Future[None]") -> None:
            if (error := future.exception()) is not None:
                log.warning("%s: %d pilots not cancelled: %r", place, len(references), error)

        call = self._fenced.call(place, lambda: self.adapter(queue, server, credential).cancel(references))
        call.add_done_callback(done)

    def reported(self, world: World) -> World:
        """Return the world with ``queue_reports``; the same one if this process submits no pilots."""
        return replace(world, queue_reports=self.queue_reports(world)) if self._submits else world

    def queue_reports(self, world: World) -> tuple[QueueReport, ...]:
        """Return a world's reports, with one for each queue if its adapter cannot be made here (B26).

        If this process submits no pilots, they stay unchanged: another machine may have the adapter.
        The same holds if this one lacks a package and pilots are there or called within three hours.
        """
        if not self._submits:
            return world.queue_reports
        reports = {report.queue: report for report in world.queue_reports}
        lacking = self.lacking(world.federation)
        for queue in world.federation.queues:
            if queue.computing_element is not None and (problem := self.problem(queue)):
                report = reports.get(queue.name) or QueueReport(queue=queue.name)
                if queue.name in lacking and _is_served(report, world.time):
                    continue
                reports[queue.name] = replace(report, pilots_possible=False, pilots_problem=problem)
        return tuple(reports[name] for name in sorted(reports))

    def lacking(self, federation: Federation) -> dict[str, str]:
        """Return the queues that need an adapter which this process lacks, and why. Others may have it."""
        for queue in federation.queues:
            self.problem(queue)
        names = {queue.name for queue in federation.queues}
        return {
            name: reason
            for name, (_, reason, lacks) in self._problems.items()
            if reason and lacks and name in names
        }

    def unusable_credentials(self, federation: Federation, now: float) -> tuple[UnusableCredential, ...]:
        """Return the credentials of persons and groups that have ended by now, or cannot be read here.

        It is empty if this process submits no pilots.
        """
        return tuple(
            UnusableCredential(queue=queue.name, credential=credential.name, reason=reason)
            for queue in federation.queues
            if self._submits and queue.computing_element
            for credential in queue.computing_element.credentials
            if (reason := credential_files.fault(credential.options, now))
        )

    def problem(self, queue: Queue) -> str:
        """Return why a queue's adapter cannot be made; checked once per declaration of its element.

        It is empty if this process submits no pilots.
        """
        if not self._submits:
            return ""
        element = queue.computing_element
        entry = self._problems.get(queue.name)
        if element is None or (entry and entry[0] == element):
            return entry[1] if entry and element is not None else ""
        with self._lock:
            self._problems[queue.name] = (element, "", False)
            self._tried.add(queue.name)
        trial = self._workers.call(f"adapter of queue {queue.name}", lambda: self._try(queue, element))
        wait([trial], MADE_WITHIN)
        with self._lock:
            if queue.name in self._tried:
                reason = f"its adapter was not ready within {MADE_WITHIN:g} s"
                self._problems[queue.name] = (element, reason, False)
            return self._problems[queue.name][1]

    def _try(self, queue: Queue, element: ComputingElement) -> None:
        """Make the adapter of each server once. It may be foreign code, and hang."""
        faults = [self._fault(queue, element.at(server)) for server in servers_of(element)]
        worst = None if None in faults else faults[0]
        lacks = all(isinstance(fault, AdapterError) for fault in faults)
        with self._lock:
            if self._problems[queue.name][0] == element:
                self._problems[queue.name] = (element, _reason(worst) if worst else "", lacks)
                self._tried.discard(queue.name)

    def _fault(self, queue: Queue, element: ComputingElement) -> Exception | None:
        try:
            self._load(element)
        except Exception as error:
            context = {"queue": queue.name}
            log.warning("queue %s: no pilot can be started: %s", queue.name, _reason(error), extra=context)
            return error
        return None

    def _tell(self, place: str, error: BaseException | None) -> None:
        """Log when a batch system is lost and when it is back, but not at every question in between."""
        with self._lock:
            was_lost = place in self._lost
            (self._lost.discard if error is None else self._lost.add)(place)
        if error is not None and not was_lost:
            log.warning("%s: its pilots cannot be seen: %r", place, error)
        elif error is None and was_lost:
            log.info("%s: its pilots are seen again", place)

    def adapter(self, queue: Queue, server: str, credential: str = "") -> ComputingElementPort:
        """Return the adapter of a queue's server for a credential. Make a new one after its declaration has
        changed.

        Raises LookupError if the queue does not declare the credential.
        """
        if queue.computing_element is None:
            raise LookupError(f"queue {queue.name} has lost its computing element")
        element = queue.computing_element.at(server, credential)
        place = place_of(queue, server, credential)
        entry = self._adapters.get(place)
        if entry is not None and entry[0] == element:
            return entry[1]
        # Outside the lock: one that hangs while it is made holds up its own place alone.
        new_adapter = self._load(element)
        with self._lock:
            entry = self._adapters.get(place)
            if entry is None or entry[0] != element:
                entry = self._adapters[place] = (element, new_adapter)
            return entry[1]


def _is_served(report: QueueReport, time: float) -> bool:
    """Return whether some process submits pilots to a queue, judging by its pilots."""
    called = report.last_pilot is not None and time - report.last_pilot < SERVED_LATELY
    return called or report.batch_workers > 0


def place_of(queue: Queue, server: str, credential: str = "") -> str:
    """Return the place of a server's calls with a credential: they wait only for each other."""
    named = (f"queue {queue.name}", server and f"server {server}", credential)
    return ", ".join(filter(None, named))


def servers_of(element: ComputingElement) -> tuple[str, ...]:
    """Return the names of a computing element's servers; one empty name if it lists none."""
    return tuple(server.name for server in element.servers) or ("",)


def _by_entrance(pilots: Iterable[Pilot]) -> Mapping[tuple[str, str], list[Pilot]]:
    """Return pilots by server and credential."""
    groups: dict[tuple[str, str], list[Pilot]] = defaultdict(list)
    for pilot in pilots:
        if pilot.reference:
            groups[pilot.broker, pilot.credential].append(pilot)
    return groups


def _submission(order: PilotOrder, answer: Submitted) -> PilotSubmission:
    return PilotSubmission(pilot=order.pilot, reference=answer.reference, error=answer.error)


def _failed(order: PilotOrder, error: BaseException) -> PilotSubmission:
    """Forget a submission without an answer in time: the pilot is submitted again under its name."""
    if isinstance(error, TimeoutError):
        return PilotSubmission(pilot=order.pilot, unknown=True)
    return PilotSubmission(pilot=order.pilot, error=_reason(error))


def _news(
    statuses: Mapping[str, PilotStatus], pilots: Mapping[str, Pilot], lost_since: float
) -> list[PilotSighting]:
    """Return news of pilots: that they ended, are stuck or lost, or why they do not start."""
    return [
        PilotSighting(
            pilot=pilots[reference].id,
            state=status.state,
            reason=status.reason,
            exit_code=status.exit_code,
            excess=status.excess,
            end_doubt=status.end_doubt,
            missing=status.missing,
        )
        for reference, status in statuses.items()
        if reference in pilots and _is_news(status, pilots[reference], lost_since)
    ]


def _is_news(status: PilotStatus, pilot: Pilot, lost_since: float) -> bool:
    # An invisible pilot has not ended, and one that called home waits for nothing.
    if status.state == "ended" or (status.state == "stuck" and status.excess):
        return pilot.ended_there_since is None
    submitted = pilot.state is PilotState.SUBMITTED
    since = pilot.missing_since
    return submitted and (
        status.state == "stuck"
        or (status.missing and (since is None or since <= lost_since))
        or (since is not None and status.state in ("waiting", "running"))
        or submissions.waits(status.state, status.reason) != pilot.waits
    )


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
