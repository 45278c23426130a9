"""Run a simulation: the real steps, a real store in memory, virtual time."""

import random
from collections.abc import Callable, Sequence

from pilotage.flow.calls.submit import SubmissionOutcome, submit
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import take
from pilotage.flow.steps import STEPS
from pilotage.flow.workers import Inline
from pilotage.model.federation import ComputingElement, Federation
from pilotage.model.identity import Identity
from pilotage.model.work import TaskSpec
from pilotage.ports.computing import ComputingElementPort
from pilotage.store import Store

from .bandwidth import VirtualMovers
from .behaviour import Behaviour
from .clock import VirtualClock
from .sites import VirtualSite

BEGIN = 1_800_000_000.0
"""The virtual time at which simulations begin, in s since 1970."""

PAUSE = 30.0
"""Virtual seconds between two passes of a step: what happens meanwhile is taken together."""

_LOOPED = tuple(step for step in STEPS if step.has_loop)


class Simulation:
    """One Pilotage in virtual time. Everything follows from the federation, the behaviour and the seed.

    Computing elements of every kind are virtual: ``options: {site: NAME}`` of an element names its site for
    the outages; queues without it stand for themselves.
    """

    def __init__(self, federation: Federation, behaviour: Behaviour, seed: int) -> None:
        self.clock = VirtualClock(BEGIN)
        self.store = Store.open("sqlite:///:memory:")
        self.store.save_federation(federation, "simulation")
        self._period = federation.loops.period
        self._batch = federation.loops.batch
        self._behaviour = behaviour
        self._dice = random.Random(seed)
        self._sites: dict[str, VirtualSite] = {}
        self._waiting: set[str] = set()
        self._rested: dict[str, float] = {}
        self.runtime = Runtime(
            self.store,
            _LOOPED,
            load=self._element,
            movers=lambda on_news: VirtualMovers(federation, behaviour, self.clock, self._dice, on_news),
            clock=self.clock,
            seeds=self._seeds(seed),
            workers=Inline(),
        )

    def submit(self, specs: Sequence[TaskSpec], owner: Identity) -> SubmissionOutcome:
        """Submit tasks now."""
        return submit(self.runtime, specs, owner)

    def run(self, duration: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let ``duration`` s pass, or fewer where ``until`` becomes true; it is asked once in a period."""
        end = self.clock() + duration
        due = self.clock()
        while self.clock() < end:
            if self.clock() >= due:
                due += self._period
                self._waiting.update(step.name for step in _LOOPED)
                if until():
                    return
            self._take_steps()
            self.clock.advance(min(due, end))

    def close(self) -> None:
        """Forget everything."""
        self.store.close()

    def _take_steps(self) -> None:
        """Take each step that has something to do, unless it was taken less than ``PAUSE`` s ago."""
        for step in _LOOPED:
            if self.runtime.wakeups.is_woken(step.name):
                self._waiting.add(step.name)
            rest = self._rested.get(step.name, 0.0) - self.clock()
            if step.name in self._waiting and rest <= 0:
                if not take(step, self.runtime, self.runtime.begin(self._batch)):
                    self._waiting.discard(step.name)
                self._rested[step.name] = self.clock() + PAUSE
                self.clock.after(PAUSE, lambda: None)

    def _element(self, declared: ComputingElement) -> ComputingElementPort:
        name = str(declared.options.get("site", "site"))
        if name not in self._sites:
            self._sites[name] = VirtualSite(name, self.runtime, self._behaviour, self.clock, self._dice)
        return self._sites[name]

    @staticmethod
    def _seeds(seed: int) -> Callable[[], int]:
        dice = random.Random(f"worlds of {seed}")
        return lambda: dice.getrandbits(32)
