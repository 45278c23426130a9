"""An hour of virtual time of ten shares under constant load: each has the slots it is promised (D3, D4)."""

import random
from collections import Counter, defaultdict
from fractions import Fraction

import pytest

from pilotage.model.documents.decision import Committed, Decision
from pilotage.model.records.data import File, NewTransfer
from pilotage.model.records.federation import Federation, Link, Queue, Site, StagingConstants, Storage
from pilotage.simulation.scenario import Scenario
from pilotage.simulation.simulation import Simulation
from pilotage.testing.stores import create

HOUR, MINUTE = 3600.0, 60.0
PRIORITIES = {f"share-{place}": 10 * place for place in range(1, 11)}
SLOTS = 55
PROMISED = {share: Fraction(SLOTS * base, sum(PRIORITIES.values())) for share, base in PRIORITIES.items()}
WAITING = 12
"""Transfers of each share that wait at any time, at least: more than any has slots."""


def federation() -> Federation:
    """Two sites, and a link over which 55 transfers of 60 GB take some ten minutes."""
    return Federation(
        name="virtual",
        sites=(Site(name="north", nucleus=True), Site(name="south")),
        storages=tuple(
            Storage(name=f"{name}-disk", site=name, url=f"virtual://{name}") for name in ("north", "south")
        ),
        queues=(Queue(name="north-queue", site="north", storage="north-disk"),),
        links=(Link(source="south", destination="north", throughput_1h=5500),),
        staging=StagingConstants(delivery_slots=SLOTS, base_priorities=PRIORITIES, sub_shares=False),
    )


class Load:
    """Keeps the queue of every share filled, and notes who has the slots after every pass."""

    def __init__(self, simulation: Simulation, shares: tuple[str, ...]) -> None:
        self.held: defaultdict[str, list[int]] = defaultdict(list)
        self.emergencies = 0
        self._asked: Counter[str] = Counter()
        self._started: Counter[str] = Counter()
        self._simulation, self._shares = simulation, shares
        self._dice = random.Random(5)
        simulation.store.listeners.append(self._note)

    def fill(self) -> bool:
        """Ask for as many transfers as were started since; sizes differ, the last share's are the largest."""
        for share in self._shares:
            missing = WAITING + self._started[share] - self._asked[share]
            names = [f"user.x:{share}/{self._asked[share] + n}" for n in range(missing)]
            size = int(self._dice.uniform(10, 60 + PRIORITIES[share]) * 1e9)
            create(self._simulation.store, *(File(name=name, size=size, checksum="") for name in names))
            create(self._simulation.store, *(_upload(name, share) for name in names))
            self._asked[share] += missing
        return False

    def _note(self, decision: Decision, _: Committed) -> None:
        if "delivering" in decision.notes:
            for share, account in decision.notes["delivering"]["shares"].items():
                self._started[share] += account["started"] + account["emergency"]
                self.emergencies += account["emergency"]
                self.held[share].append(account["held"] + account["started"] + account["emergency"])


def _upload(name: str, share: str) -> NewTransfer:
    return NewTransfer(
        file=name,
        source="south-disk",
        source_path=f".scratch/virtual/1.1/{name}",
        destination="north-disk",
        direction="upload",
        share=share,
        priority=25,
    )


# Ten shares are held without a store in tests/staging/test_shares.py, and shares in a whole simulation below.
@pytest.mark.endurance
def test_d3_ten_shares_under_constant_load_have_their_slots_within_one() -> None:
    scenario = Scenario(name="shares", federation="", period=MINUTE)
    simulation = Simulation(federation(), scenario, seed=3)
    load = Load(simulation, tuple(PRIORITIES))
    simulation.run(10 * MINUTE, until=load.fill)
    begun = {share: len(held) for share, held in load.held.items()}
    simulation.run(HOUR, until=load.fill)
    for share, promised in PROMISED.items():
        held = load.held[share][begun[share] :]
        assert len(held) >= 60, "a pass a minute, or more"
        assert all(abs(slots - promised) <= 1 for slots in held), (share, float(promised), set(held))
    assert load.emergencies == 0
    simulation.close()


@pytest.mark.slow
def test_d4_a_share_that_comes_to_full_slots_has_its_own_once_those_before_it_end() -> None:
    scenario = Scenario(name="shares", federation="", period=MINUTE)
    simulation = Simulation(federation(), scenario, seed=3)
    first, last = tuple(PRIORITIES)[:-1], "share-10"
    early = Load(simulation, first)
    simulation.run(10 * MINUTE, until=early.fill)
    late = Load(simulation, (last,))
    simulation.run(30 * MINUTE, until=lambda: early.fill() or late.fill())
    assert late.emergencies <= 1, "one at most starts at once (D5), the others as slots come free"
    assert abs(late.held[last][-1] - PROMISED[last]) <= 1
    simulation.close()
