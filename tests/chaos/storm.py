"""A storm: faults and work by a plan on a system that runs; then calm, and the verdict."""

import random
import statistics
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import psutil
from sqlalchemy import text

from .faults import KINDS as FAULTS
from .observer import Observer
from .plan import Arrival, Plan, Strike
from .system import System
from .verdict import Evidence, judge
from .work import Expectation, Work, probe, work_of

STILL = 300.0
"""Seconds without any event after which work that has not ended never will: a machine may be very busy."""

MOST_OPEN = 12
"""Tasks that have not ended, at which an arrival is left out: a slow machine gets less work."""

LONGEST_CALM = 1800.0
"""Seconds after which work that goes round in circles is given up."""


@dataclass
class Outcome:
    """What a storm showed. ``recoveries`` are seconds by kind of fault."""

    plan: Plan
    faults: list[str] = field(default_factory=list)
    struck: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    recoveries: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    tasks: int = 0
    jobs: int = 0
    attempts: int = 0
    looks: int = 0

    def lines(self) -> list[str]:
        """Return the report."""
        head = f"{'fault':<24}{'times':>6}{'median s':>10}{'worst s':>9}"
        rows = [
            f"{kind:<24}{times:>6}{_shown(self.recoveries[kind], statistics.median):>10}"
            f"{_shown(self.recoveries[kind], max):>9}"
            for kind, times in sorted(self.struck.items())
        ]
        work = f"{self.tasks} tasks, {self.jobs} jobs, {self.attempts} attempts"
        done = f"{work}; {self.looks} looks at all limits"
        wrong = [f"WRONG: {fault}" for fault in self.faults[:50]]
        verdict = f"{len(self.faults)} faults" if self.faults else "all hypotheses hold"
        return [f"seed {self.plan.seed}, {self.plan.seconds:g} s", head, *rows, done, *wrong, verdict]


def _shown(seconds: Sequence[float], of: Callable[[Sequence[float]], float]) -> str:
    return f"{of(seconds):.1f}" if seconds else ""


class Storm:
    """One storm on a system."""

    def __init__(self, plan: Plan, system: System) -> None:
        self.system = system
        self.outcome = Outcome(plan)
        self.expected: dict[int, Expectation] = {}
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._probes = 0
        self._begun = time.monotonic()

    def run(self) -> Outcome:
        """Let it storm, wait for calm, and judge."""
        observer = Observer(self.system)
        try:
            self._storm(observer)
            self._calm()
        finally:
            observer.close()
        self.outcome.looks = observer.looks
        self.outcome.faults += observer.faults()
        self._judge()
        return self.outcome

    def _storm(self, observer: Observer) -> None:
        plan = self.outcome.plan
        moments: list[Strike | Arrival] = [*plan.strikes, *plan.arrivals]
        for number, what in enumerate(sorted(moments, key=lambda one: one.at)):
            time.sleep(max(0.0, self._begun + what.at - time.monotonic()))
            if isinstance(what, Strike):
                self._beside(self._strike, what)
            elif observer.most_recent["open tasks", "the user"] < MOST_OPEN:
                self._beside(self._submit, work_of(number, what, self.system.place))
        for thread in self._threads:
            thread.join()

    def _beside(self, act: Callable[..., object], *arguments: object) -> None:
        """Act in a thread. What it raises is a fault of the storm."""

        def guarded() -> None:
            try:
                act(*arguments)
            except Exception:
                with self._lock:
                    told = traceback.format_exc(limit=-3)
                    self.outcome.faults.append(f"{act.__name__} {_name(arguments[0])}: {told}")

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _strike(self, strike: Strike) -> None:
        fault = FAULTS[strike.kind](self.system, random.Random(strike.seed))
        begun = time.monotonic()
        if not fault.start():
            return
        self._say(f"{strike.kind} for {strike.seconds:.1f} s")
        with self._lock:
            self.outcome.struck[strike.kind] += 1
        try:
            if fault.has_stand_in:
                self._beside(self._recover, strike.kind, begun)
            time.sleep(strike.seconds)
        finally:
            begun = time.monotonic()
            fault.stop()
        if not fault.has_stand_in:
            self._beside(self._recover, strike.kind, begun)

    def _recover(self, kind: str, begun: float) -> None:
        """Note how long it takes until new work gets through."""
        with self._lock:
            self._probes += 1
            number = self._probes
        (task,) = self._submit(probe(number, self.system.place))
        self._wait_for_end(task)
        with self._lock:
            self.outcome.recoveries[kind].append(time.monotonic() - begun)

    def _submit(self, work: Work) -> list[int]:
        tasks = self.system.submit(work)
        with self._lock:
            self.expected |= dict(zip(tasks, work.expectations, strict=True))
        if work.cancel_after is not None:
            time.sleep(work.cancel_after)
            for task in tasks:
                self.system.call("POST", f"/tasks/{task}/cancel", {"reason": "a storm"})
        return tasks

    def _wait_for_end(self, task: int) -> None:
        end = time.monotonic() + LONGEST_CALM
        while self.system.call("GET", f"/tasks/{task}")["state"] not in ("finished", "failed", "cancelled"):
            if time.monotonic() > end:
                raise AssertionError(f"task {task} does not end")
            time.sleep(0.2)

    def _calm(self) -> None:
        """Wait until nothing is live, as long as anything happens."""
        self._say("the storm is over")
        engine = self.system.engine()
        end, newest, moved = time.monotonic() + LONGEST_CALM, -1, time.monotonic()
        try:
            while time.monotonic() < min(end, moved + STILL):
                self._open_places()
                with engine.connect() as connection:
                    live, event = connection.execute(text(_LIVE)).one()
                if not live and not self.system.agents():
                    return
                if event != newest:
                    newest, moved = event, time.monotonic()
                time.sleep(0.5)
        finally:
            engine.dispose()
        self.outcome.faults.append("the system does not come to rest")

    def _open_places(self) -> None:
        """Open every place: a request to drain one that a frozen server held back may take effect late."""
        for one in self.system.call("GET", "/restrictions")["restrictions"]:
            self.system.call("DELETE", f"/restrictions/{one['kind']}/{one['name']}")

    def _judge(self) -> None:
        processes = [one for house in self.system.houses for one in _family(house.running["server"].pid)]
        for house in self.system.houses:
            house.running["server"].terminate()
        for house in self.system.houses:
            code = house.running["server"].wait(300)
            if code:
                self.outcome.faults.append(f"a server ended with {code} after SIGTERM")
        self.outcome.faults += [
            f"process {one.pid} is left behind: {' '.join(one.cmdline())[:200]}"
            for one in (*processes, *self.system.agents())
            if one.is_running() and one.status() != psutil.STATUS_ZOMBIE
        ]
        engine = self.system.engine()
        with engine.connect() as connection:
            self.outcome.tasks = len(self.expected)
            self.outcome.jobs, self.outcome.attempts = connection.execute(
                text("SELECT COUNT(*), COALESCE(SUM(attempt), 0) FROM jobs")
            ).one()
            self.outcome.faults += judge(Evidence(connection, self.system.place, self.expected))
        engine.dispose()

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self._begun:6.1f} s  {what}", flush=True)


_LIVE = """
SELECT (SELECT COUNT(*) FROM tasks WHERE state NOT IN ('finished', 'failed', 'cancelled'))
  + (SELECT COUNT(*) FROM pilots WHERE state IN ('created', 'submitted', 'running'))
  + (SELECT COUNT(*) FROM transfers WHERE state NOT IN ('done', 'failed', 'cancelled'))
  + (SELECT COUNT(*) FROM jobs WHERE state NOT IN ('finished', 'failed', 'cancelled', 'closed')),
  (SELECT COALESCE(MAX(id), 0) FROM events)
"""


def _name(what: object) -> object:
    return what.key if isinstance(what, Work) else what


def _family(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)
