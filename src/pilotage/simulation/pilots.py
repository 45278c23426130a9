"""Virtual pilots: they ask for work, run payloads for as long as these take, report, and end when idle."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pilotage.agent.wire import JobOrder, MatchAnswer, Work
from pilotage.flow.calls.match import match
from pilotage.flow.calls.pilot_end import end
from pilotage.flow.calls.report import report
from pilotage.flow.errors import PilotGone
from pilotage.model.world import Output, Report
from pilotage.ports.computing import PilotOrder

if TYPE_CHECKING:
    from .sites import VirtualSite

P = ParamSpec("P")
T = TypeVar("T")
Attempt = tuple[int, int]

BLACK_HOLE = 10.0
"""Seconds after which a payload fails on a black hole."""

ASK_AGAIN = 60.0
"""Seconds after which a pilot asks again whose answer was lost."""


class SimulatedLoss(Exception):
    """A call took effect, but its answer never arrived."""


@dataclass(slots=True)
class _Running:
    """A payload: its task, its work in HS23 s, and the report once it has ended."""

    attempt: Attempt
    task: int
    work: float
    lasts: float
    outputs: tuple[Output, ...]
    report: Report | None = None


@dataclass(slots=True)
class VirtualPilot:
    """A pilot with cores of ``core_power`` HS23; it holds its slots from its start to its end."""

    site: "VirtualSite"
    order: PilotOrder
    core_power: float
    called: bool = False
    ended: bool = False
    node: str = ""
    _started: float = 0.0
    _had_jobs: bool = False
    _running: dict[Attempt, _Running] = field(default_factory=dict)
    _idle_since: float | None = None
    _beating: bool = False

    def start(self, node: str) -> None:
        """Start on a node, until the walltime is over at the latest."""
        self.node, self._started = node, self.site.scene.clock()
        self.site.scene.clock.after(self.order.walltime, self.vanish)
        self.work()

    def vanish(self) -> None:
        """End without a word, and everything that runs here with it."""
        if self.ended:
            return
        self.ended = True
        self._running.clear()
        if self.node:
            journal, now = self.site.scene.journal, self.site.scene.clock()
            journal.pilots += 1
            journal.empty_pilots += not self._had_jobs
            journal.granted += (now - self._started) * self.order.cores * self.core_power
        self.site.ended(self)

    def work(self) -> None:
        """Ask for jobs while there are free slots; end after a while without any."""
        free = self.order.slots - len(self._running)
        if self.ended or free <= 0:
            return
        try:
            answer = self._call(self._match, free)
        except SimulatedLoss:
            self.site.scene.clock.after(ASK_AGAIN, self.work)
            return
        except PilotGone:
            self.vanish()
            return
        self.called = True
        self._take(answer)
        if not self._beating and not self.ended:
            self._beating = True
            self.site.scene.clock.after(answer.heartbeat, lambda: self._beat(answer.heartbeat))
        if self._running:
            self._idle_since = None
        else:
            self._rest(answer.idle)

    def _match(self, free: int) -> MatchAnswer:
        cores = self.order.cores * free // self.order.slots
        left = self.order.walltime - (self.site.scene.clock() - self._started)
        return match(
            self.site.scene.runtime, self.order.pilot, cores, 0, left, free, node=self.node, containers=True
        )

    def _take(self, answer: MatchAnswer) -> None:
        for work in answer.works:
            for job in work.jobs:
                self._begin(work, job)
        if answer.works:
            begun = [Report(job=job, attempt=attempt, state="running") for job, attempt in self._running]
            self._report(begun)

    def _begin(self, work: Work, job: JobOrder) -> None:
        scene, behaviour, dice = self.site.scene, self.site.behaviour, self.site.dice
        amount = scene.payloads.work(work.task, job.job)
        is_lost = self.site.is_black_hole(self.node)
        lasts = BLACK_HOLE if is_lost else amount / (self.core_power * max(1, work.cores))
        size = scene.payloads.tasks[work.task].output_size // max(1, len(work.outputs))
        outputs = tuple(Output(name=name, size=size, checksum="") for name in work.outputs)
        running = _Running((job.job, job.attempt), work.task, amount, lasts, outputs)
        self._running[running.attempt] = running
        self._had_jobs = True
        scene.journal.started(job.job, scene.clock())
        for file in job.inputs:
            scene.journal.read(file.name, work.storage_url)
        fails = dice.random() < behaviour.payload_fails or is_lost
        scene.clock.after(lasts, partial(self._payload_ended, running, fails))

    def _payload_ended(self, running: _Running, fails: bool) -> None:
        if self.ended or running.attempt not in self._running:
            return
        job, attempt = running.attempt
        running.report = Report(
            job=job,
            attempt=attempt,
            state="failed" if fails else "done",
            error="the virtual payload failed" if fails else "",
            exit_code=int(fails),
            wall_seconds=running.lasts,
            cpu_seconds=running.lasts * self.order.cores / self.order.slots,
            outputs=() if fails else running.outputs,
        )
        if not fails:
            self.site.scene.journal.ended.append((self.site.scene.clock(), running.task, running.work))
        self._report([])
        self.work()

    def _report(self, more: list[Report]) -> None:
        """Report on payloads that ended, and again at the next call where the answer was lost."""
        ended = [running.report for running in self._running.values() if running.report is not None]
        holding = sorted(key for key, running in self._running.items() if running.report is None)
        try:
            stops = self._call(report, self.site.scene.runtime, self.order.pilot, holding, [*more, *ended])
        except SimulatedLoss:
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
            self.site.scene.clock.after(period, lambda: self._beat(period))

    def _rest(self, idle: float) -> None:
        """Wait a little for work, then say goodbye."""
        clock = self.site.scene.clock
        if self._idle_since is None:
            self._idle_since = clock()
            # Loops that look for idle pilots take a pass in every period, which is shorter than this rest.
            self.site.scene.runtime.wakeups.wake("rebind")
            clock.after(idle + 1, self.work)
        elif clock() - self._idle_since > idle:
            with suppress(SimulatedLoss, PilotGone):
                self._call(end, self.site.scene.runtime, self.order.pilot, "idle")
            self.vanish()

    def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the server; sometimes the answer is lost."""
        answer = function(*args, **kwargs)
        if self.site.dice.random() < self.site.behaviour.answer_lost:
            raise SimulatedLoss
        return answer
