"""Virtual pilots, which ask for work, run payloads and report, and the scene that all sites share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from random import Random
from typing import Protocol

from pilotage.flow.calls.pilots.input_sources import Readings
from pilotage.flow.calls.places.circuit_breakers import of_storages
from pilotage.flow.matching.matched import Matched
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.world import Heartbeat, Output, Report
from pilotage.model.records.failure_kinds import FailureKind
from pilotage.model.records.federation import Storage
from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.work import Job, Pilot, Task
from pilotage.model.rules.job_payload import payload_of
from pilotage.model.rules.sources import Sources
from pilotage.model.rules.timeouts import lease_of
from pilotage.model.values.outputs import example
from pilotage.model.values.scopes import name_of
from pilotage.model.values.step_names import REBIND
from pilotage.policies.pilots.reports import Attempt
from pilotage.ports.computing import PilotOrder
from pilotage.simulation.clock import VirtualClock
from pilotage.simulation.journal import Journal
from pilotage.simulation.links import FairLinks
from pilotage.simulation.payloads import Payloads
from pilotage.simulation.pilot_calls import PilotCalls
from pilotage.simulation.scenario import SiteBehaviour


@dataclass(slots=True)
class Scene:
    """What all virtual sites of a simulation share. Times count from ``begin``."""

    runtime: Runtime
    calls: PilotCalls
    clock: VirtualClock
    journal: Journal
    payloads: Payloads
    links: FairLinks
    known_sources: Sources
    begin: float
    seed: int

    def sources(self) -> Sources:
        """Return the storages and links, with their circuit breakers now (F4)."""
        breakers = of_storages(self.runtime)
        if breakers != self.known_sources.breakers:
            self.known_sources = Sources(self.known_sources.federation, breakers)
        return self.known_sources


BLACK_HOLE = 10.0
"""Seconds after which a payload fails on a black hole."""

ASK_AGAIN = 60.0
"""Seconds after which a pilot asks again, if it got no job for a free slot or lost the answer."""

REGULAR_END = 60.0
"""Seconds before the end of its walltime when a pilot stops its payloads and reports that."""


@dataclass(slots=True)
class _Running:
    """A payload: its task and cores, its work in HS23 s, its start, and its final report.

    It computes for ``cpu_seconds``, summed over its cores. Its pilot reports three times within ``lease`` s,
    the lease of its workflow. ``left`` counts the parts that must still end: its computing, and each file
    that it reads remotely over ``flows``.
    """

    attempt: Attempt
    task: int
    cores: int
    work: float
    began: float
    cpu_seconds: float
    outputs: tuple[Output, ...]
    lease: float
    activities: int = 1
    flows: list[int] = field(default_factory=list)
    report: Report | None = None

    @property
    def started(self) -> Report:
        """Return the report that it runs."""
        job, attempt = self.attempt
        return Report(job=job, attempt=attempt, state="running")


class HostSite(Protocol):
    """The methods of a virtual site that its pilots need."""

    name: str
    behaviour: SiteBehaviour
    scene: Scene
    dice: Random

    @property
    def is_cut_off(self) -> bool:
        """Return whether no call reaches the server."""

    def ended(self, pilot: "VirtualPilot") -> None:
        """Remove a pilot, and give its slots to waiting ones."""

    def is_black_hole(self, node: str) -> bool:
        """Return whether every payload fails on a node."""


@dataclass(slots=True)
class VirtualPilot:
    """A pilot with cores of ``core_power`` HS23. It holds its slots from start to end."""

    site: HostSite
    order: PilotOrder
    core_power: float
    storage: Storage
    called: bool = False
    ended: bool = False
    node: str = ""
    _started: float = 0.0
    _had_jobs: bool = False
    _asks_again: bool = False
    _is_over: bool = False
    _heartbeat: float = 0.0
    _beats: int = 0
    _running: dict[Attempt, _Running] = field(default_factory=dict)
    # Starts and ends that the server does not know yet.
    _news: dict[Attempt, _Running] = field(default_factory=dict)
    _cores_taken: int = 0
    _idle_since: float | None = None
    _answered: float = 0.0
    """When the server answered last, in s since 1970."""

    def start(self, node: str) -> None:
        """Start on a node, at most until the end of the walltime."""
        self.node, self._started = node, self.site.scene.clock()
        self.site.scene.journal.pilots += 1
        regular = self.order.walltime - min(REGULAR_END, self.order.walltime / 20)
        self.site.scene.clock.after(regular, self._end_regularly)
        self._ask()

    def _end_regularly(self) -> None:
        """Stop the payloads, report that, and leave. If no call reaches the server, vanish."""
        if self.ended:
            return
        self._is_over = True
        scene = self.site.scene
        if not self._running or self.site.is_cut_off:
            self.vanish()
            return
        for running in self._running.values():
            if running.report is None:
                running.report = self._report(running, "the pilot's walltime is over", "slot-walltime")
                self._news[running.attempt] = running
        scene.calls.tell(self)

    def vanish(self) -> None:
        """End silently, with everything that runs here."""
        if self.ended:
            return
        self.ended = True
        for attempt in list(self._running):
            self._stop(attempt)
        if self.node:
            journal = self.site.scene.journal
            journal.empty_pilots += not self._had_jobs
            journal.granted += self.granted
        self.site.ended(self)

    @property
    def granted(self) -> float:
        """Return the HS23 s of the cores that it has held so far."""
        lasted = self.site.scene.clock() - self._started if self.node else 0.0
        return lasted * self.order.cores * self.core_power

    @property
    def free(self) -> int:
        """Return the slots without a payload, at most as many as free cores."""
        return (
            0
            if self.ended or self._is_over
            else max(0, min(self.order.slots - len(self._running), self.free_cores))
        )

    @property
    def free_cores(self) -> int:
        """Return the cores that no payload uses."""
        return self.order.cores - self._cores_taken

    def request(self, record: Pilot) -> MatchRequest:
        """Return a request for as many jobs as it has free slots."""
        return MatchRequest(
            pilot=record.id,
            queue=record.queue,
            kind=record.kind,
            owner=record.owner,
            cores=self.free_cores,
            memory=0,
            walltime=self.order.walltime - (self.site.scene.clock() - self._started),
            max_jobs=self.free,
            node=self.node,
            containers=True,
        )

    def take(self, matched: Matched | None) -> None:
        """Run the matched jobs. None means that the server does not know this pilot as running."""
        if self._loses_answer():
            self._ask_after(ASK_AGAIN)
            return
        if matched is None:
            self.vanish()
            return
        if not self.called:
            self.called = True
            self._heartbeat = matched.federation.loops.heartbeat
            self._beat_again()
        self._answered = self.site.scene.clock()
        tasks = {task.id: task for task in matched.tasks}
        readings = Readings(matched, cache(self.site.scene.sources))
        sizes = {file.name: file.size for file in matched.files}
        for job in matched.jobs:
            read = ((name, readings.remote_source(job, name)) for name in job.inputs)
            lease = lease_of(matched.federation.timeouts, tasks[job.task].spec.workflow)
            remote = [(source.site, sizes[name]) for name, source in read if source]
            self._begin(tasks[job.task], job, remote, lease)
        if matched.jobs:
            self.site.scene.calls.tell(self)
            if self._period() < self._heartbeat:
                self._beat_again()
        if not self._running:
            scene = self.site.scene
            self._rest(
                scene.runtime.idle_timeouts.seconds(
                    matched.federation, matched.queue, scene.clock(), matched.unfit_jobs, self.order.pilot
                )
            )
        elif self.free and matched.jobs:
            # After a match, ask again immediately: there may be more jobs.
            self.site.scene.clock.after(0, self._ask)
        elif self.free:
            self._ask_after(ASK_AGAIN)

    def _begin(self, task: Task, job: Job, remote: Sequence[tuple[str, int]], lease: float) -> None:
        scene, behaviour, dice = self.site.scene, self.site.behaviour, self.site.dice
        spec = payload_of(task, job, task.changed(job.changes, job.kind).expected(job.kind))
        amount = scene.payloads.work(task.id, job.id, job.kind)
        is_lost = self.site.is_black_hole(self.node)
        cores = max(1, spec.cores)
        lasts = BLACK_HOLE if is_lost else amount / (self.core_power * cores)
        size = scene.payloads.tasks[task.id].output_size // max(1, len(spec.outputs))
        outputs = tuple(Output(name=example(name), size=size, checksum="") for name in spec.outputs)
        attempt = (job.id, job.attempt)
        running = _Running(attempt, task.id, cores, amount, scene.clock(), lasts * cores, outputs, lease)
        self._running[attempt] = self._news[attempt] = running
        self._cores_taken += cores
        self._had_jobs, self._idle_since = True, None
        scene.journal.started(job.id, scene.clock())
        for file in job.inputs:
            scene.journal.read(name_of(file), self.storage.url)
        fails = is_lost or dice.random() < behaviour.payload_fails
        ended = partial(self._part_ended, running, fails)
        scene.clock.after(lasts, ended)
        for site, size in () if is_lost else remote:
            running.activities += 1
            running.flows.append(scene.links.begin((site, self.site.name), size / 1e6, ended))
            scene.journal.moved += size

    def _part_ended(self, running: _Running, fails: bool) -> None:
        running.activities -= 1
        is_here = running.attempt in self._running and running.report is None
        if is_here and not (running.activities or self.ended):
            self._payload_ended(running, fails)

    def _stop(self, attempt: Attempt) -> None:
        """Remove a payload and its flows."""
        running = self._running.pop(attempt, None)
        if running is None:
            return
        self._news.pop(attempt, None)
        self._cores_taken -= running.cores
        for flow in running.flows:
            self.site.scene.links.cancel(flow)

    def _payload_ended(self, running: _Running, fails: bool) -> None:
        running.report = self._report(running, "the virtual payload failed" if fails else "")
        if not fails:
            ended = self.site.scene.clock(), running.task, running.work
            self.site.scene.journal.ended[running.attempt[0]] = ended
        self._news[running.attempt] = running
        self._tell()
        self._ask()

    def _report(self, running: _Running, error: str, kind: FailureKind = "payload") -> Report:
        job, attempt = running.attempt
        return Report(
            job=job,
            attempt=attempt,
            state="failed" if error else "done",
            error=error,
            kind=kind,
            exit_code=int(bool(error)) if kind == "payload" else None,
            wall_seconds=self.site.scene.clock() - running.began,
            cpu_seconds=running.cpu_seconds,
            outputs=() if error else running.outputs,
        )

    def heartbeat(self) -> Heartbeat:
        """Return a heartbeat: running and ended attempts. If its answer is lost, the pilot sends it again."""
        ended = {attempt for attempt, running in self._news.items() if running.report}
        return Heartbeat(
            pilot=self.order.pilot,
            holding=tuple([attempt for attempt in self._running if attempt not in ended]),
            reports=tuple([running.report or running.started for running in self._news.values()]),
        )

    def reported(self, heartbeat: Heartbeat, stops: Sequence[Attempt] | None) -> None:
        """Remove news that the server has now, and stop attempts that this pilot has lost."""
        if self._loses_answer():
            return
        if stops is None:
            self.vanish()
            return
        self._answered = self.site.scene.clock()
        for report in heartbeat.reports:
            if report.state == "running":
                del self._news[report.job, report.attempt]
            else:
                self._stop((report.job, report.attempt))
        for attempt in stops:
            self._stop(attempt)
        if self._is_over:
            self.site.scene.calls.leave(self)
            self.vanish()

    def running(self) -> tuple[Attempt, ...]:
        """Return the attempts with running payloads."""
        return tuple(attempt for attempt, running in self._running.items() if running.report is None)

    def _ask(self) -> None:
        if self.site.is_cut_off:
            self._ask_after(ASK_AGAIN)
        elif not self.ended:
            self.site.scene.calls.ask(self)

    def _tell(self) -> None:
        """Report, unless no call reaches the server: then payloads end with their lease."""
        if not self.site.is_cut_off:
            self.site.scene.calls.tell(self)
            return
        silent = self.site.scene.clock() - self._answered
        for attempt in [attempt for attempt, running in self._running.items() if silent >= running.lease]:
            self._stop(attempt)

    def _period(self) -> float:
        """Return the seconds between two heartbeats."""
        return min([self._heartbeat, *(running.lease / 3 for running in self._running.values())])

    def _beat_again(self) -> None:
        """Schedule a call after each period. This replaces earlier scheduled calls."""
        self._beats = number = self._beats + 1

        def beat() -> None:
            if not self.ended and number == self._beats:
                self._tell()
                self._ask()
                self._beat_again()

        self.site.scene.clock.after(self._period(), beat)

    def _rest(self, idle: float) -> None:
        """Wait for work, but end after ``idle`` s without any."""
        scene = self.site.scene
        if self._idle_since is None:
            self._idle_since = scene.clock()
        if scene.clock() - self._idle_since > idle:
            scene.calls.leave(self)
            self.vanish()
            return
        # A loop that looks for idle pilots runs in every period. A period is shorter than this rest.
        scene.runtime.wakeups.wake(REBIND)
        self._ask_after(min(ASK_AGAIN, idle + 1))

    def _ask_after(self, seconds: float) -> None:
        """Ask once more after a while, even if it asks before for another reason."""

        def ask() -> None:
            self._asks_again = False
            self._ask()

        if not self._asks_again:
            self._asks_again = True
            self.site.scene.clock.after(seconds, ask)

    def _loses_answer(self) -> bool:
        return self.site.dice.random() < self.site.behaviour.answer_lost
