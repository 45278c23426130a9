"""A storm: faults and work by a plan on a system that runs; then calm, and the verdict."""

import random
import statistics
import subprocess
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

import psutil
from sqlalchemy import text

from .calm import ENDED, SETTLING, Calm
from .faults import KINDS as FAULTS
from .observer import Observer
from .plan import Arrival, Plan, Strike
from .system import System
from .verdict import Evidence, history, judge
from .work import Expectation, Work, probe, work_of

MOST_OPEN, MOST_PROBES = 12, 6
"""Tasks that have not ended, and probes, at which a new one is left out: a slow machine gets less work."""

LONGEST_END = 60.0
"""Seconds in which a server must end after SIGTERM, once there is nothing left to do."""


@dataclass
class Outcome:
    """What a storm showed. ``recoveries`` are seconds by kind of fault. ``said`` are the errors of tasks that
    failed by a fault and ended well after a retry.
    """

    plan: Plan
    faults: list[str] = field(default_factory=list)
    struck: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    recoveries: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    tasks: int = 0
    jobs: int = 0
    attempts: int = 0
    looks: int = 0
    said: list[str] = field(default_factory=list)

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
        wrong = [f"retried: {line}" for line in self.said] + [f"WRONG: {fault}" for fault in self.faults[:50]]
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
        self._probing: list[threading.Thread] = []
        self._end = inf
        self._probes = 0
        self._begun = time.monotonic()
        self._observer = Observer(system)

    def run(self) -> Outcome:
        """Let it storm, wait for calm, and judge."""
        try:
            self._storm()
            self._settle()
        finally:
            self._observer.close()
        self.outcome.looks = self._observer.looks
        self.outcome.faults += self._observer.faults()
        self._judge()
        return self.outcome

    def _storm(self) -> None:
        plan = self.outcome.plan
        moments: list[Strike | Arrival] = [*plan.strikes, *plan.arrivals]
        for number, what in enumerate(sorted(moments, key=lambda one: one.at)):
            time.sleep(max(0.0, self._begun + what.at - time.monotonic()))
            if isinstance(what, Strike):
                self._beside(self._strike, what)
            elif self._observer.most_recent["open tasks", "the user"] < MOST_OPEN:
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
        (self._probing if act == self._recover else self._threads).append(thread)

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
        """Note how long it takes until new work gets through, unless many others do so now."""
        with self._lock:
            if sum(one.is_alive() for one in self._probing) > MOST_PROBES:
                return
            self._probes += 1
            number = self._probes
        (task,) = self._submit(probe(number, self.system.place))
        if self._final_state(task) == "finished":
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

    def _final_state(self, task: int) -> str:
        # Questions to the servers would keep a slow machine busy.
        while (state := self._observer.states.get(task, "")) not in ENDED:
            if time.monotonic() > self._end:
                raise AssertionError(f"task {task} does not end")
            time.sleep(0.2)
        return state

    def _settle(self) -> None:
        """Wait until nothing is live, and note what does not end."""
        self._say("the storm is over")
        self._end = time.monotonic() + SETTLING
        calm = Calm(self.system, self.expected)
        self.outcome.faults += calm.wait(lambda: not any(one.is_alive() for one in self._probing), self._end)
        for thread in self._probing:
            thread.join(LONGEST_END)
        self.outcome.said = [
            f"task {task} ({self.expected[task].name}): {error}" for task, error in calm.said.items()
        ]

    def _judge(self) -> None:
        processes = [one for house in self.system.houses for one in _family(house.running["server"].pid)]
        for house in self.system.houses:
            house.running["server"].terminate()
        for house in self.system.houses:
            try:
                code: int | str = house.running["server"].wait(LONGEST_END)
            except subprocess.TimeoutExpired:
                code = f"not at all in {LONGEST_END:g} s"
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
            evidence = Evidence(connection, self.system.place, self.expected)
            self.outcome.faults += judge(evidence)
            if self.outcome.faults:
                (self.system.place / "history.txt").write_text("\n".join(history(evidence)) + "\n")
        engine.dispose()

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self._begun:6.1f} s  {what}", flush=True)


def _name(what: object) -> object:
    return what.key if isinstance(what, Work) else what


def _family(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)
