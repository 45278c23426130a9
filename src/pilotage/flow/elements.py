"""Computing elements as steps use them: adapters are kept, calls never block, and answers come back later."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace

from pilotage.model.federation import ComputingElement, Queue
from pilotage.model.observations import PilotSighting, PilotSubmission
from pilotage.model.work import Pilot
from pilotage.model.world import QueueReport, World
from pilotage.ports.computing import ComputingElementPort, PilotOrder, PilotStatus, Submitted

from .workers import WorkersPort

log = logging.getLogger(__name__)

Load = Callable[[ComputingElement], ComputingElementPort]


class Elements:
    """The computing elements of a federation's queues.

    What they answer is kept until a pass has committed it: :meth:`submissions` and :meth:`sightings` are read
    into its world, :meth:`forget` follows its commit. ``on_news`` is called when there is something to read.
    """

    def __init__(
        self, load: Load, workers: WorkersPort, on_news: Callable[[], None], submits: bool = True
    ) -> None:
        self._load = load
        self._workers = workers
        self._on_news = on_news
        self._submits = submits
        self._lock = threading.Lock()
        self._adapters: dict[str, tuple[ComputingElement, ComputingElementPort]] = {}
        self._submissions: dict[int, PilotSubmission] = {}
        self._sightings: dict[int, PilotSighting] = {}
        self._polling: set[str] = set()
        self._lost: set[str] = set()
        self._problems: dict[str, tuple[ComputingElement, str]] = {}

    def submit(self, queue: Queue, orders: Sequence[PilotOrder]) -> None:
        """Submit pilots to a queue's computing element."""

        def done(future: "Future[Sequence[Submitted]]") -> None:
            error = future.exception()
            if error is not None:
                log.warning("queue %s: submission of %d pilots failed: %r", queue.name, len(orders), error)
                answers: Sequence[Submitted] = [Submitted(error=_reason(error))] * len(orders)
            else:
                answers = future.result()
            with self._lock:
                for order, answer in zip(orders, answers, strict=True):
                    self._submissions[order.pilot] = PilotSubmission(
                        pilot=order.pilot, reference=answer.reference, error=answer.error
                    )
            self._on_news()

        self._workers.call(queue.name, lambda: self._adapter(queue).submit(orders)).add_done_callback(done)

    def look(self, queue: Queue, pilots: Iterable[Pilot]) -> None:
        """Ask what became of a queue's pilots, unless the last question is not answered yet."""
        by_reference = {pilot.reference: pilot.id for pilot in pilots}
        with self._lock:
            if queue.name in self._polling or not by_reference:
                return
            self._polling.add(queue.name)

        def done(future: "Future[Mapping[str, PilotStatus]]") -> None:
            error = future.exception()
            self._tell(queue, error)
            with self._lock:
                self._polling.discard(queue.name)
                ended = [] if error else _ended(future.result(), by_reference)
                self._sightings.update((sighting.pilot, sighting) for sighting in ended)
            if ended:
                self._on_news()

        self._workers.call(queue.name, lambda: self._adapter(queue).poll(by_reference)).add_done_callback(
            done
        )

    def cancel(self, queue: Queue, references: Sequence[str]) -> None:
        """End pilots at their computing element."""

        def done(future: "Future[None]") -> None:
            if (error := future.exception()) is not None:
                log.warning("queue %s: %d pilots not cancelled: %r", queue.name, len(references), error)

        self._workers.call(queue.name, lambda: self._adapter(queue).cancel(references)).add_done_callback(
            done
        )

    def reported(self, world: World) -> World:
        """The world with a report for each queue whose adapter cannot be made here (B26).

        Where this process submits no pilots the world stays as it is: another machine may have the adapter.
        """
        if not self._submits:
            return world
        known = {report.queue: report for report in world.queue_reports}
        for queue in world.federation.queues:
            if queue.computing_element is not None and (problem := self._problem(queue)):
                report = known.get(queue.name) or QueueReport(queue=queue.name)
                known[queue.name] = replace(report, pilots_possible=False, pilots_problem=problem)
        return replace(world, queue_reports=tuple(known[name] for name in sorted(known)))

    def _problem(self, queue: Queue) -> str:
        """The reason why a queue's adapter cannot be made; asked once for each declaration of its element."""
        element = queue.computing_element
        found = self._problems.get(queue.name)
        if element is None or (found and found[0] == element):
            return found[1] if found and element is not None else ""
        problem = ""
        try:
            self._load(element)
        except Exception as error:
            problem = _reason(error)
            log.warning("queue %s: no pilot can be started: %s", queue.name, problem)
        self._problems[queue.name] = (element, problem)
        return problem

    def submissions(self) -> tuple[PilotSubmission, ...]:
        """Answers to submissions, by pilot."""
        with self._lock:
            return tuple(self._submissions[pilot] for pilot in sorted(self._submissions))

    def sightings(self) -> tuple[PilotSighting, ...]:
        """Pilots that their computing element says have ended, by pilot."""
        with self._lock:
            return tuple(self._sightings[pilot] for pilot in sorted(self._sightings))

    def forget(self, submissions: Iterable[PilotSubmission], sightings: Iterable[PilotSighting]) -> None:
        """Drop answers that a commit has taken account of."""
        with self._lock:
            for submission in submissions:
                self._submissions.pop(submission.pilot, None)
            for sighting in sightings:
                self._sightings.pop(sighting.pilot, None)

    def _tell(self, queue: Queue, error: BaseException | None) -> None:
        """Log when a batch system is lost and when it is back, not at every question in between."""
        with self._lock:
            was_lost = queue.name in self._lost
            (self._lost.discard if error is None else self._lost.add)(queue.name)
        if error is not None and not was_lost:
            log.warning("queue %s: its pilots cannot be seen: %r", queue.name, error)
        elif error is None and was_lost:
            log.info("queue %s: its pilots are seen again", queue.name)

    def _adapter(self, queue: Queue) -> ComputingElementPort:
        """The adapter of a queue, made anew when the federation declares it otherwise."""
        element = queue.computing_element
        if element is None:
            raise LookupError(f"queue {queue.name} has no computing element any more")
        with self._lock:
            known = self._adapters.get(queue.name)
            if known is None or known[0] != element:
                known = self._adapters[queue.name] = (element, self._load(element))
            return known[1]


def _ended(statuses: Mapping[str, PilotStatus], pilots: Mapping[str, int]) -> list[PilotSighting]:
    """The pilots that have ended: what cannot be seen has not."""
    return [
        PilotSighting(
            pilot=pilots[reference], state="ended", reason=status.reason, exit_code=status.exit_code
        )
        for reference, status in statuses.items()
        if status.state == "ended" and reference in pilots
    ]


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
