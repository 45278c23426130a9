"""Run a simulation: the real steps, a real store in memory, virtual time."""

import random
from collections.abc import Callable, Sequence

from sqlalchemy import func, select

from pilotage.flow.calls.submit import SubmissionOutcome, submit
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Step, take
from pilotage.flow.workers import Inline
from pilotage.model.federation import UNKNOWN_CORE_POWER, ComputingElement, Federation
from pilotage.model.states import TaskState
from pilotage.ports.computing import ComputingElementPort
from pilotage.store import Store
from pilotage.store.tasks import tasks as task_table

from .clock import VirtualClock
from .journal import Journal
from .movers import VirtualMovers
from .payloads import Payloads, SimulatedTask
from .policies import KNOWN, steps_of
from .scenario import Scenario
from .sites import Scene, VirtualElement, VirtualSite

ENDED_TASKS = (TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELLED)

BEGIN = 1_800_000_000.0
"""The virtual time at which simulations begin, in s since 1970."""

PAUSE = 30.0
"""Virtual seconds between two passes of a step: what happens meanwhile is taken together."""


class Simulation:
    """One Pilotage in virtual time. Everything follows from the federation, the scenario and the seed.

    Computing elements are virtual, whatever their kind: ``options: {queue: NAME}`` names the queue of each
    (see :func:`.reading.virtual`).
    """

    def __init__(
        self,
        federation: Federation,
        scenario: Scenario,
        seed: int,
        steps: Sequence[Step] = steps_of(KNOWN["pilotage"]),
    ) -> None:
        self.clock = VirtualClock(BEGIN)
        self.store = Store.open("sqlite:///:memory:")
        self.store.save_federation(federation, "simulation")
        self.federation = federation
        self.journal = Journal()
        self.payloads = Payloads()
        self._scenario = scenario
        self._steps = tuple(steps)
        self._sites: dict[str, VirtualSite] = {}
        self._waiting: set[str] = set()
        self._rested: dict[str, float] = {}
        dice = random.Random(f"links of {seed}")
        self.runtime = Runtime(
            self.store,
            self._steps,
            load=self._element,
            movers=lambda on_news: VirtualMovers(
                federation, scenario.links, self.clock, self.journal, dice, on_news
            ),
            clock=self.clock,
            seeds=_seeds(seed),
            workers=Inline(),
        )
        self._scene = Scene(self.runtime, self.clock, self.journal, self.payloads, BEGIN, seed)

    def submit(self, submission: SimulatedTask) -> SubmissionOutcome:
        """Submit a task now."""
        outcome = submit(self.runtime, [submission.spec], submission.owner)
        self.payloads.tasks.update((id_, submission) for _, id_ in outcome.tasks)
        return outcome

    def run(self, duration: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let ``duration`` s pass, or fewer where ``until`` becomes true; it is asked once in a period."""
        end = self.clock() + duration
        due = self.clock()
        while self.clock() < end:
            if self.clock() >= due:
                due += self._scenario.period
                self._waiting.update(step.name for step in self._steps)
                if until():
                    return
            self._take_steps()
            self.clock.advance(min(due, end))

    def has_ended(self, tasks: int) -> bool:
        """Tell whether so many tasks have ended."""
        query = select(func.count()).select_from(task_table).where(task_table.c.state.in_(ENDED_TASKS))
        ended = self.store.database.read(lambda connection: connection.execute(query).scalar_one())
        return ended >= tasks

    def close(self) -> None:
        """Forget everything."""
        self.store.close()

    def _take_steps(self) -> None:
        """Take each step that has something to do, unless it was taken less than ``PAUSE`` s ago."""
        for step in self._steps:
            if self.runtime.wakeups.is_woken(step.name):
                self._waiting.add(step.name)
            rest = self._rested.get(step.name, 0.0) - self.clock()
            if step.name in self._waiting and rest <= 0:
                if not take(step, self.runtime, self.runtime.begin(self.federation.loops.batch)):
                    self._waiting.discard(step.name)
                self._rested[step.name] = self.clock() + PAUSE
                self.clock.after(PAUSE, lambda: None)

    def _element(self, declared: ComputingElement) -> ComputingElementPort:
        name = str(declared.options["queue"])
        queue = next(queue for queue in self.federation.queues if queue.name == name)
        if queue.site not in self._sites:
            behaviour = self._scenario.site(queue.site)
            self._sites[queue.site] = VirtualSite(queue.site, behaviour, self._scene)
        return VirtualElement(self._sites[queue.site], queue.core_power or UNKNOWN_CORE_POWER)


def _seeds(seed: int) -> Callable[[], int]:
    dice = random.Random(f"worlds of {seed}")
    return lambda: dice.getrandbits(32)
