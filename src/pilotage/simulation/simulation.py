"""Run a simulation: the real steps, a real store in memory, virtual time."""

import contextlib
import gc
from collections.abc import Callable, Iterator
from hashlib import blake2b
from math import floor, inf

from sqlalchemy import func, select

from pilotage.flow.calls.work.submit import SubmissionOutcome, submit
from pilotage.flow.loops.time_limit import TimeLimit
from pilotage.flow.outside.workers import Inline
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Step, take
from pilotage.model.records.federation import UNKNOWN_CORE_POWER, ComputingElement, Federation
from pilotage.model.records.states import TaskState
from pilotage.model.rules.sources import Sources
from pilotage.model.values.step_names import BROKER, SPLIT, STAGE
from pilotage.ports.computing import ComputingElementPort
from pilotage.simulation.baselines import adopt
from pilotage.simulation.clock import VirtualClock
from pilotage.simulation.idleness import Idleness, empty, slots, waiting
from pilotage.simulation.journal import Journal
from pilotage.simulation.links import FairLinks
from pilotage.simulation.movers import VirtualMovers, links_of
from pilotage.simulation.payloads import Payloads, SimulatedTask
from pilotage.simulation.pilot_calls import PilotCalls
from pilotage.simulation.pilots import Scene
from pilotage.simulation.policies import KNOWN, Policy, steps_of
from pilotage.simulation.scenario import Scenario
from pilotage.simulation.sites import VirtualElement, VirtualSite
from pilotage.store import Store
from pilotage.store.database.columns import is_state
from pilotage.store.database.rows import raw_rows
from pilotage.store.tasks.table import tasks as task_table


class Seeds:
    """Derives the seeds of a run's worlds from the run's own seed.

    A seed belongs to the n-th pass of a step in a tick, independent of other steps' passes. So the simulation
    may skip a pass that would change nothing, without changing the run.
    """

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        self._seed = seed
        self._clock = clock
        self._who = ""
        self._since = 0.0
        self._numbers: dict[str, int] = {}

    def of(self, who: str) -> None:
        """Make the next seeds for a step, or for the calls of pilots."""
        self._who = who

    def __call__(self) -> int:
        """Return the next seed."""
        now = self._clock()
        if now != self._since:
            self._since = now
            self._numbers.clear()
        number = self._numbers[self._who] = self._numbers.get(self._who, 0) + 1
        text = f"{self._seed} {self._who} {now} {number}"
        return int.from_bytes(blake2b(text.encode(), digest_size=4).digest())


_ENDED = (
    select(func.count())
    .select_from(task_table)
    .where(is_state(task_table, TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELLED))
)

BEGIN = 1_800_000_000.0
"""The virtual time when simulations begin, in s since 1970."""

AT_ONCE = {STAGE: 4}
"""Steps that move a record on in several passes, with their most passes per tick. A server takes these
within a second. With one pass per tick, files would take minutes for nothing."""

IN_PARTS = (SPLIT, BROKER)
"""Steps that process waiting records in parts. A tick has one pass of them per ``PART_AFTER`` s of its
length. A server processes part after part. With one part in a tick of many minutes, slots would stay empty
for lack of jobs."""

PART_AFTER = 60.0

COLLECTED_AFTER = 200
"""Ticks between collections of cyclic garbage."""


class Simulation:
    """One Pilotage in virtual time. Federation, scenario, seed and policy determine everything.

    ``federation`` must include the policy's changes. Here the policy gives only the steps and the placement.

    Computing elements of all kinds are virtual. ``options: {queue: NAME}`` names the queue of each (see
    ``.reading.virtual``). Without a ``store``, one in memory keeps no reasons and no events.
    """

    def __init__(
        self,
        federation: Federation,
        scenario: Scenario,
        seed: int,
        policy: Policy = KNOWN["pilotage"],
        store: Store | None = None,
    ) -> None:
        self.clock = VirtualClock(BEGIN)
        self.store = store or Store.open("sqlite:///:memory:", keeps_reasons=False, keeps_events=False)
        self.store.save_federation(federation, "simulation")
        self.federation = federation
        self.journal = Journal()
        self.idleness = Idleness()
        self.payloads = Payloads()
        self._scenario = scenario
        self._steps = steps_of(policy)
        self._waiting: set[str] = set()
        self._changed: set[str] = set()
        self._seeds = Seeds(seed, self.clock)
        links = links_of(federation, scenario.links, self.clock)
        self.runtime = Runtime(
            self.store,
            self._steps,
            load=self._element,
            movers=lambda on_news: VirtualMovers(
                federation, scenario, links, self.clock, self.journal, seed, on_news
            ),
            clock=self.clock,
            seeds=self._seeds,
            workers=Inline(),
            time_limit=TimeLimit(None),
        )
        adopt(self.runtime, policy)
        self._calls = PilotCalls(self.runtime)
        scene = self._scene_of(links, seed)
        names = dict.fromkeys(queue.site for queue in federation.queues)
        self._sites = {name: VirtualSite(name, scenario.site(name), scene) for name in names}

    def _scene_of(self, links: FairLinks, seed: int) -> Scene:
        """Return the scene that the virtual sites of this simulation share."""
        return Scene(
            runtime=self.runtime,
            calls=self._calls,
            clock=self.clock,
            journal=self.journal,
            payloads=self.payloads,
            links=links,
            known_sources=Sources(self.federation),
            begin=BEGIN,
            seed=seed,
        )

    def submit(self, submission: SimulatedTask) -> SubmissionOutcome:
        """Submit a task now."""
        outcome = submit(self.runtime, [submission.spec], submission.owner)
        self.payloads.tasks.update((id_, submission) for _, id_ in outcome.tasks)
        return outcome

    def run(self, duration: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let ``duration`` s pass, or fewer if ``until`` becomes true. Check it once per period.

        Events between two ticks take effect at the second tick.
        """
        end = self.clock() + duration
        next_tick = self.clock()
        with _collecting_seldom() as ticked:
            while self.clock() < end:
                if self.clock() >= next_tick:
                    next_tick += self._scenario.period
                    self._waiting.update(step.name for step in self._steps)
                    if until():
                        return
                self._take_calls_and_steps()
                self._count_empty_slots()
                self.clock.advance(min(next_tick, end, self._next_tick()))
                ticked()

    def _next_tick(self) -> float:
        """Return the end of the tick with the next event, or with the next pass of a waiting step."""
        tick = self._scenario.tick
        happens = self.clock() if self._waiting or self._changed else self.clock.next_event
        return BEGIN + (floor((happens - BEGIN) / tick) + 1) * tick if happens < inf else inf

    def has_ended(self, tasks: int) -> bool:
        """Return whether that many tasks have ended."""
        ((ended,),) = self.store.database.read(lambda connection: raw_rows(connection, _ENDED))
        return bool(ended >= tasks)

    @property
    def granted(self) -> float:
        """Return the HS23 s of the cores that pilots have held so far."""
        return self.journal.granted + sum(site.granted for site in self._sites.values())

    def close(self) -> None:
        """Free all resources."""
        self.store.close()

    def _take_calls_and_steps(self) -> None:
        """Process pilots' reports, then each step with work, then pilots' requests."""
        self._seeds.of("pilots")
        self._calls.report()
        for step in self._steps:
            is_due = self._is_due(step)
            self._changed.discard(step.name)
            if is_due:
                self._take(step)
        self._seeds.of("pilots")
        self._calls.match()

    def _count_empty_slots(self) -> None:
        if self.idleness.is_due(self.clock()):
            jobs = self.store.database.read(waiting)
            self.idleness.note(self.clock(), empty(jobs, slots(self.federation, self._sites)))

    def _is_due(self, step: Step) -> bool:
        """Return whether a step runs in this tick.

        If a step changed something in the last tick, ask it only now whether it has more work, like a
        server's loop. Other events may have removed that work.
        """
        if step.name in self._waiting or self.runtime.wakeups.waits(step.name):
            return True
        return step.name in self._changed and step.goes_on(self.runtime)

    def _take(self, step: Step) -> None:
        """Run a step. While it has more work, run it again, up to its most passes per tick."""
        self._seeds.of(step.name)
        self._waiting.discard(step.name)
        for number in range(self._passes(step)):
            if number and not step.goes_on(self.runtime):
                return
            self.runtime.wakeups.is_woken(step.name)
            if not take(step, self.runtime, self.runtime.begin(self.federation.loops.batch)):
                return
        self._changed.add(step.name)

    def _passes(self, step: Step) -> int:
        """Return the most passes of a step in one tick."""
        parts = int(self._scenario.tick / PART_AFTER) if step.name in IN_PARTS else 1
        return max(1, parts, AT_ONCE.get(step.name, 1))

    def _element(self, declared: ComputingElement) -> ComputingElementPort:
        name = str(declared.options["queue"])
        queue = next(queue for queue in self.federation.queues if queue.name == name)
        storage = next(candidate for candidate in self.federation.storages if candidate.name == queue.storage)
        return VirtualElement(self._sites[queue.site], queue.core_power or UNKNOWN_CORE_POWER, storage)


@contextlib.contextmanager
def _collecting_seldom() -> Iterator[Callable[[], None]]:
    """Collect cyclic garbage every ``COLLECTED_AFTER`` ticks. The block calls the result once per tick.

    A tick makes many records and few cycles. Python's automatic collections would take a quarter of its time.
    """
    ticks = 0

    def ticked() -> None:
        nonlocal ticks
        ticks += 1
        if ticks % COLLECTED_AFTER == 0:
            gc.collect()
        if ticks == COLLECTED_AFTER and not was_frozen:
            # Freeze modules and other existing objects: checking them again takes most of a collection.
            gc.freeze()

    # If objects were frozen before, leave them frozen: Python cannot unfreeze some of them.
    was_enabled, was_frozen = gc.isenabled(), gc.get_freeze_count() > 0
    gc.disable()
    try:
        yield ticked
    finally:
        if not was_frozen:
            gc.unfreeze()
        if was_enabled:
            gc.enable()
