"""Virtual sites: batch systems where pilots wait for slots, nodes where they start, and outages."""

import random
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pilotage.model.records.federation import Storage
from pilotage.model.values.durations import HOUR
from pilotage.ports.computing import Capacity, PilotOrder, PilotStatus, Submitted
from pilotage.simulation.pilots import Scene, VirtualPilot
from pilotage.simulation.scenario import SiteBehaviour


@dataclass(frozen=True, slots=True)
class SiteSlots:
    """Slots of a site: all that pilots may hold now, running, free, and queued ones."""

    granted: int
    running: int
    free: int
    queued: int

    @property
    def empty(self) -> tuple[int, int, int]:
        """Return the slots without a payload: at a pilot, with a pilot in the batch system, and without
        any."""
        unused = max(0, self.granted - self.running)
        free = min(self.free, unused)
        queued = min(self.queued, unused - free)
        return free, queued, unused - free - queued


class VirtualSite:
    """The batch system and the nodes of one site, made at the start of the simulation.

    Pilots start in the order of the ends of their waits.
    """

    def __init__(self, name: str, behaviour: SiteBehaviour, scene: Scene) -> None:
        self.name, self.behaviour, self.scene = name, behaviour, scene
        self.dice = random.Random(f"site {name} of {scene.seed}")
        self.pilots: dict[str, VirtualPilot] = {}
        self._outages = 0
        self._waiting: deque[VirtualPilot] = deque()
        self._looks_again = False
        self._held = 0
        for spell in behaviour.outages:
            scene.clock.after(spell.begins, self._die)
            scene.clock.after(spell.ends, self._revive)
        self._cuts = 0
        for spell in behaviour.cuts:
            scene.clock.after(spell.begins, partial(self._cut, 1))
            scene.clock.after(spell.ends, partial(self._cut, -1))

    @property
    def is_dead(self) -> bool:
        """Return whether the site does not answer. Outages may overlap."""
        return self._outages > 0

    @property
    def is_cut_off(self) -> bool:
        """Return whether calls between it and the server fail. Cuts may overlap."""
        return self._cuts > 0

    def _cut(self, more: int) -> None:
        self._cuts += more

    def submit(self, pilot: VirtualPilot) -> None:
        """Put a pilot into the batch queue. Some never leave it."""
        self.pilots[pilot.order.name] = pilot
        if self.dice.random() >= self.behaviour.never_calls:
            self.scene.clock.after(self._wait(), lambda: self._ready(pilot))

    def ended(self, pilot: VirtualPilot) -> None:
        """Remove a pilot, and give its slots to waiting ones."""
        self.pilots.pop(pilot.order.name, None)
        if pilot.node:
            self._held -= pilot.order.slots
            self._start_waiting()

    @property
    def granted(self) -> float:
        """Return the HS23 s of the cores that the live pilots here have held so far."""
        return sum(pilot.granted for pilot in self.pilots.values())

    def _wait(self) -> float:
        behaviour, now = self.behaviour, self.scene.clock() - self.scene.begin
        busy = any(spell.begins <= now < spell.ends for spell in behaviour.busy)
        drawn = self.dice.lognormvariate(0, behaviour.wait_spread)
        return behaviour.wait * drawn * (behaviour.busy_factor if busy else 1)

    def _ready(self, pilot: VirtualPilot) -> None:
        self._waiting.append(pilot)
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and not self.is_dead:
            pilot = self._waiting[0]
            if not pilot.ended and self._held + pilot.order.slots > self._granted():
                self._look_again()
                return
            self._waiting.popleft()
            if not pilot.ended:
                self._held += pilot.order.slots
                pilot.start(f"{self.name}-{self.dice.randrange(self.behaviour.nodes)}")

    def _look_again(self) -> None:
        """Check again at the next full hour, when others' work may have freed slots."""
        if not self._looks_again:
            self._looks_again = True
            self.scene.clock.after(HOUR - (self.scene.clock() - self.scene.begin) % HOUR, self._hour_passed)

    def _hour_passed(self) -> None:
        self._looks_again = False
        self._start_waiting()

    def _granted(self) -> float:
        """Return the slots that the site leaves to pilots in this hour."""
        if self.behaviour.slots is None:
            return float("inf")
        hour = int((self.scene.clock() - self.scene.begin) // HOUR)
        part = random.Random(f"{self.name} {hour} {self.scene.seed}").random() * self.behaviour.slots_taken
        return self.behaviour.slots * (1 - part)

    def slots(self, limit: int) -> SiteSlots:
        """Return its slots now. Pilots may hold at most ``limit`` of them."""
        granted, free, queued = 0, 0, 0
        for pilot in self.pilots.values():
            if pilot.node:
                granted, free = granted + pilot.order.slots, free + pilot.free
            else:
                queued += pilot.order.slots
        return SiteSlots(
            0 if self.is_dead else int(min(self._granted(), limit)), granted - free, free, queued
        )

    def is_black_hole(self, node: str) -> bool:
        """Return whether each payload fails on a node. The first nodes are black holes."""
        return int(node.rpartition("-")[2]) < self.behaviour.black_holes

    def _die(self) -> None:
        self._outages += 1
        for pilot in list(self.pilots.values()):
            pilot.vanish()

    def _revive(self) -> None:
        self._outages -= 1
        self._start_waiting()


class VirtualElement:
    """The computing element of a queue at a virtual site, with ``core_power`` HS23 per core.

    Its jobs read from its ``storage``, and read missing files remotely.
    """

    def __init__(self, site: VirtualSite, core_power: float, storage: Storage) -> None:
        self._site = site
        self._core_power = core_power
        self._storage = storage

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Put pilots into the batch queue. Raises OSError during an outage or if the answer is lost."""
        self._reach()
        for order in orders:
            self._site.submit(VirtualPilot(self._site, order, self._core_power, self._storage))
        if self._site.dice.random() < self._site.behaviour.answer_lost:
            raise OSError(f"{self._site.name} took pilots, but its answer was lost")
        return [Submitted(reference=order.name) for order in orders]

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        """Return the states of pilots. Raises OSError during an outage."""
        self._reach()
        return {reference: self._status(reference) for reference in references}

    def cancel(self, references: Collection[str]) -> None:
        """Kill pilots. Raises OSError while the site is cut off."""
        if self._site.is_cut_off:
            self._reach()
        for reference in references:
            if pilot := self._site.pilots.get(reference):
                pilot.vanish()

    def capacity(self) -> Capacity:
        """Return an empty capacity: the element does not count jobs."""
        return Capacity()

    def _reach(self) -> None:
        if self._site.is_dead or self._site.is_cut_off:
            raise OSError(f"{self._site.name} does not answer")

    def _status(self, reference: str) -> PilotStatus:
        pilot = self._site.pilots.get(reference)
        if pilot is None or pilot.ended:
            return PilotStatus(state="ended", reason="gone")
        return PilotStatus(state="running" if pilot.called else "waiting")
