"""A storm: faults and work by a plan on a system that runs; then calm, and the verdict."""

import random
import subprocess
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psutil
from sqlalchemy import text

from .calm import SETTLING, Calm
from .faults import KINDS as FAULTS
from .observer import Observer
from .plan import Arrival, Plan, Strike
from .recovery import Pace, Recovery, Struck, measured, payloads, table, too_slow
from .system import System
from .verdict import Evidence, history, judge
from .work import Expectation, Work, probe, work_of

MOST_OPEN = 30
"""Tasks that have not ended at which a new one is left out: a slow machine gets less work."""

LONGEST_END = 60.0
"""Seconds in which a server must end after SIGTERM, once there is nothing left to do."""

TURN = 60.0
"""Seconds that a fault waits for a victim."""


@dataclass
class Outcome:
    """What a storm showed. ``said`` are the errors of tasks that failed by a fault and ended well after a
    retry, ``lacking`` why kinds of faults are left out, ``slower`` how many times slower the machine was.
    """

    plan: Plan
    faults: list[str] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)
    recoveries: Mapping[str, Recovery] = field(default_factory=dict)
    lacking: Mapping[str, str] = field(default_factory=dict)
    slower: float = 1.0
    tasks: int = 0
    jobs: int = 0
    payloads: int = 0
    again: int = 0
    looks: int = 0
    said: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the report."""
        work = f"{self.tasks} tasks, {self.jobs} jobs, {self.payloads} payloads"
        return [
            f"seed {self.plan.seed}, {self.plan.seconds:g} s",
            *table(self.recoveries, self.struck, self.slower),
            f"{work}, {self.again} jobs computed again; {self.looks} looks at all limits",
            *(f"left out: {kind}: {why}" for kind, why in self.lacking.items()),
            *(f"retried: {line}" for line in self.said),
            *(f"WRONG: {fault}" for fault in self.faults[:50]),
            f"{len(self.faults)} faults" if self.faults else "all hypotheses hold",
        ]


class Storm:
    """One storm on a system."""

    def __init__(self, plan: Plan, system: System) -> None:
        self.system = system
        why = {kind: fault.lacking(system) for kind, fault in FAULTS.items()}
        self.outcome = Outcome(plan, lacking={kind: told for kind, told in why.items() if told})
        self.expected: dict[int, Expectation] = {}
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._strikes: list[Struck] = []
        self._pace = Pace()
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
                told = f"{act.__name__} {_name(arguments[0])}: {traceback.format_exc(limit=-3)}"
                self._say(told)
                with self._lock:
                    self.outcome.faults.append(told)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _strike(self, strike: Strike) -> None:
        if strike.kind in self.outcome.lacking:
            return
        fault = FAULTS[strike.kind](self.system, random.Random(strike.seed))
        until = self._begun + min(strike.at + TURN, self.outcome.plan.seconds)
        busy, begun = self._observer.busy, time.time()
        while not fault.start():
            if time.monotonic() > until:
                return
            time.sleep(0.5)
            busy, begun = self._observer.busy, time.time()
        self._say(f"{strike.kind} for {strike.seconds:.1f} s")
        affected = {job for job, site in busy.items() if fault.site in ("", site)}
        try:
            time.sleep(strike.seconds)
        finally:
            fault.stop()
        struck = Struck(strike.kind, begun, time.time(), fault.away, affected)
        if fault.jobs is not None:
            struck.jobs = fault.jobs
        with self._lock:
            self.outcome.struck[strike.kind] += 1
            self._strikes.append(struck)
            number = len(self._strikes)
        (struck.probe,) = self._submit(probe(number, fault.site, self.system.place))

    def _submit(self, work: Work) -> list[int]:
        tasks = self.system.submit(work)
        with self._lock:
            self.expected |= dict(zip(tasks, work.expectations, strict=True))
        if work.cancel_after is not None:
            time.sleep(work.cancel_after)
            for task in tasks:
                self.system.call("POST", f"/tasks/{task}/cancel", {"reason": "a storm"})
        return tasks

    def _settle(self) -> None:
        """Wait until nothing is live, and note what does not end."""
        self._say("the storm is over")
        self.outcome.slower = self._pace.close()
        calm = Calm(self.system, self.expected)
        self.outcome.faults += calm.wait(time.monotonic() + SETTLING)
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
            self.outcome.jobs = connection.execute(text("SELECT COUNT(*) FROM jobs")).scalar_one()
            self.outcome.payloads, self.outcome.again = payloads(self.system.place / "ledger")
            absences = all(FAULTS[kind].is_absence for kind in self.outcome.struck)
            evidence = Evidence(connection, self.system.place, self.expected, absences)
            self.outcome.faults += judge(evidence)
            self.outcome.recoveries = measured(
                connection, self.system.place / "ledger", self._strikes, len(self.system.houses)
            )
            self.outcome.faults += too_slow(self.outcome.recoveries, self.outcome.slower)
            if self.outcome.faults:
                (self.system.place / "history.txt").write_text("\n".join(history(evidence)) + "\n")
        engine.dispose()

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self._begun:6.1f} s  {what}", flush=True)


def _name(what: object) -> object:
    return what.key if isinstance(what, Work) else what


def _family(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)
