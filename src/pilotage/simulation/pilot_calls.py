"""Calls of virtual pilots: they are collected while virtual time passes, and made together."""

from collections.abc import Sequence
from typing import Protocol

from pilotage.flow.calls.pilots.pilot_end import end_all
from pilotage.flow.calls.pilots.report import report_all
from pilotage.flow.matching.matched import Matched
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.world import Heartbeat
from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.work import Pilot
from pilotage.policies.pilots.reports import Attempt
from pilotage.ports.computing import PilotOrder


class Caller(Protocol):
    """The methods of a virtual pilot that its calls need."""

    order: PilotOrder
    ended: bool

    @property
    def free(self) -> int:
        """Return the slots without a payload."""

    def heartbeat(self) -> Heartbeat:
        """Return a heartbeat: running and ended attempts."""

    def reported(self, heartbeat: Heartbeat, stops: Sequence[Attempt] | None) -> None:
        """Process the answer: attempts to stop, or None if the server does not know this pilot as running."""

    def request(self, record: Pilot) -> MatchRequest:
        """Return a request for as many jobs as it has free slots."""

    def take(self, matched: Matched | None) -> None:
        """Run the matched jobs. None means that the server does not know this pilot as running."""

    def vanish(self) -> None:
        """End silently, with everything that runs here."""


class PilotCalls:
    """Reports and requests of pilots for the next tick, one of each per pilot."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._telling: dict[int, Caller] = {}
        self._asking: dict[int, Caller] = {}
        self._leaving: dict[int, Caller] = {}

    def tell(self, pilot: Caller) -> None:
        """Queue a pilot's report on its payloads, which is its heartbeat."""
        self._telling[pilot.order.pilot] = pilot

    def ask(self, pilot: Caller) -> None:
        """Queue a pilot's request for jobs."""
        self._asking[pilot.order.pilot] = pilot

    def leave(self, pilot: Caller) -> None:
        """Queue a pilot's goodbye."""
        self._leaving[pilot.order.pilot] = pilot

    def report(self) -> None:
        """Process the reports."""
        telling, self._telling = self._telling, {}
        heartbeats = [pilot.heartbeat() for pilot in telling.values() if not pilot.ended]
        if heartbeats:
            stops = report_all(self._runtime, heartbeats)
            for heartbeat in heartbeats:
                telling[heartbeat.pilot].reported(heartbeat, stops.get(heartbeat.pilot))

    def match(self) -> None:
        """Give jobs to pilots, and process the reports of started jobs."""
        asking, self._asking = self._asking, {}
        free = [id_ for id_, pilot in asking.items() if pilot.free]
        if free:
            matching, now, seed = self._runtime.matching, self._runtime.clock(), self._runtime.seeds()
            records = matching.pilots(free, now, seed)
            for id_ in free:
                if id_ not in records:
                    asking[id_].vanish()
            requests = [asking[id_].request(record) for id_, record in records.items()]
            for request, matched in zip(requests, matching.match_all(requests, now, seed), strict=True):
                asking[request.pilot].take(matched)
            self.report()
        self._end()

    def _end(self) -> None:
        leaving, self._leaving = self._leaving, {}
        if leaving:
            end_all(self._runtime, list(leaving), "idle")
