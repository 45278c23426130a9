"""Virtual sites: batch systems in which virtual pilots wait, start, run payloads and fail."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

from pilotage.agent.wire import MatchAnswer
from pilotage.flow.calls.match import match
from pilotage.flow.calls.pilot_end import end
from pilotage.flow.calls.report import report
from pilotage.flow.errors import PilotGone
from pilotage.flow.runtime import Runtime
from pilotage.model.world import Output, Report
from pilotage.ports.computing import Capacity, PilotOrder, PilotStatus, Submitted

from .behaviour import Behaviour
from .clock import VirtualClock

P = ParamSpec("P")
T = TypeVar("T")
Attempt = tuple[int, int]

OUTPUT_SIZE = 1_000_000
"""Bytes of each virtual output."""


class AnswerLost(Exception):
    """A call took effect, but its answer never arrived."""


class VirtualSite:
    """The batch system of one site, and its nodes."""

    def __init__(
        self, name: str, runtime: Runtime, behaviour: Behaviour, clock: VirtualClock, dice: random.Random
    ) -> None:
        self.name, self.runtime, self.behaviour, self.clock, self.dice = name, runtime, behaviour, clock, dice
        self._pilots: dict[str, VirtualPilot] = {}
        self._dead = False
        for site, begins, ends in behaviour.outages:
            if site == name:
                clock.after(begins, self._die)
                clock.after(ends, self._revive)

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Put pilots into the batch queue. Raises OSError while the site is dead or if its answer is lost."""
        if self._dead:
            raise OSError(f"{self.name} does not answer")
        answers = [self._submitted(order) for order in orders]
        if self.dice.random() < self.behaviour.answer_lost:
            raise OSError(f"{self.name} took pilots, but its answer was lost")
        return answers

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        """The states of pilots. Raises OSError while the site is dead."""
        if self._dead:
            raise OSError(f"{self.name} does not answer")
        return {reference: self._status(reference) for reference in references}

    def cancel(self, references: Collection[str]) -> None:
        """Kill pilots."""
        for reference in references:
            if reference in self._pilots:
                self._pilots[reference].vanish()

    def capacity(self) -> Capacity:
        """Nothing is known of it."""
        return Capacity()

    def _submitted(self, order: PilotOrder) -> Submitted:
        pilot = VirtualPilot(self, order)
        self._pilots[order.name] = pilot
        if self.dice.random() >= self.behaviour.never_calls:
            self.clock.after(self.dice.expovariate(1 / self.behaviour.wait), pilot.work)
        return Submitted(reference=order.name)

    def _status(self, reference: str) -> PilotStatus:
        pilot = self._pilots.get(reference)
        if pilot is None or pilot.ended:
            return PilotStatus(state="ended", reason="gone")
        return PilotStatus(state="running" if pilot.called else "waiting")

    def _die(self) -> None:
        self._dead = True
        for pilot in self._pilots.values():
            pilot.vanish()

    def _revive(self) -> None:
        self._dead = False


@dataclass(slots=True)
class _Running:
    attempt: Attempt
    outputs: tuple[str, ...]
    ended: bool = False
    report: Report | None = None


@dataclass(slots=True)
class VirtualPilot:
    """A pilot: it matches, runs payloads in its slots, reports, and ends when it is idle."""

    site: VirtualSite
    order: PilotOrder
    called: bool = False
    ended: bool = False
    _running: dict[Attempt, _Running] = field(default_factory=dict)
    _idle_since: float | None = None
    _beating: bool = False

    def vanish(self) -> None:
        """End without a word, and everything that runs here with it."""
        self.ended = True
        self._running.clear()

    def work(self) -> None:
        """Ask for jobs while there are free slots; end after a while without any."""
        if self.ended:
            return
        free = self.order.slots - len(self._running)
        if free <= 0:
            return
        try:
            answer = self._call(self._match, free)
        except AnswerLost:
            self.site.clock.after(60, self.work)
            return
        except PilotGone:
            self.vanish()
            return
        self.called = True
        self._take(answer)
        if not self._beating:
            self._beating = True
            self.site.clock.after(answer.heartbeat, lambda: self._beat(answer.heartbeat))
        if not self._running:
            self._rest(answer.idle)
        else:
            self._idle_since = None

    def _match(self, free: int) -> MatchAnswer:
        cores = self.order.cores * free // self.order.slots
        return match(self.site.runtime, self.order.pilot, cores, 0, self.order.walltime, free)

    def _take(self, answer: MatchAnswer) -> None:
        for work in answer.works:
            for job in work.jobs:
                running = _Running((job.job, job.attempt), work.outputs)
                self._running[running.attempt] = running
                duration = self.site.dice.expovariate(1 / self.site.behaviour.run)
                fails = self.site.dice.random() < self.site.behaviour.payload_fails
                self.site.clock.after(duration, partial(self._payload_ended, running, fails))
        begun = [Report(job=job, attempt=attempt, state="running") for job, attempt in self._running]
        if answer.works:
            self._report(begun)

    def _payload_ended(self, running: _Running, fails: bool) -> None:
        if self.ended or running.attempt not in self._running:
            return
        job, attempt = running.attempt
        outputs = tuple(Output(name=name, size=OUTPUT_SIZE, checksum="") for name in running.outputs)
        running.report = (
            Report(job=job, attempt=attempt, state="failed", error="the virtual payload failed", exit_code=1)
            if fails
            else Report(job=job, attempt=attempt, state="done", exit_code=0, outputs=outputs)
        )
        self._report([])
        self.work()

    def _report(self, more: list[Report]) -> None:
        """Report on payloads that ended, and again at the next call where the answer was lost."""
        ended = [running.report for running in self._running.values() if running.report is not None]
        holding = sorted(key for key, running in self._running.items() if running.report is None)
        try:
            stops = self._call(report, self.site.runtime, self.order.pilot, holding, [*more, *ended])
        except AnswerLost:
            return
        except PilotGone:
            self.vanish()
            return
        for attempt in {*stops, *((one.job, one.attempt) for one in ended)}:
            self._running.pop(attempt, None)

    def _beat(self, period: float) -> None:
        if not self.ended:
            self._report([])
            self.work()
            self.site.clock.after(period, lambda: self._beat(period))

    def _rest(self, idle: float) -> None:
        """Wait a little for work, then say goodbye."""
        now = self.site.clock()
        if self._idle_since is None:
            self._idle_since = now
            self.site.clock.after(idle + 1, self.work)
        elif now - self._idle_since > idle:
            with suppress(AnswerLost, PilotGone):
                self._call(end, self.site.runtime, self.order.pilot, "idle")
            self.vanish()

    def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the server; sometimes the answer is lost."""
        answer = function(*args, **kwargs)
        if self.site.dice.random() < self.site.behaviour.answer_lost:
            raise AnswerLost
        return answer
