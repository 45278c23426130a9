"""Virtual links that break open circuit breakers, as real ones do (F4)."""

from collections import Counter
from collections.abc import Mapping

import pytest

from pilotage.flow.calls.places import circuit_breakers
from pilotage.model.records.data import File, NewTransfer
from pilotage.model.records.federation import Federation, Queue, Site, StagingConstants, Storage
from pilotage.model.records.states import TransferState
from pilotage.simulation.scenario import LinkBehaviour, Scenario, Spell, StorageBehaviour
from pilotage.simulation.simulation import Simulation
from pilotage.testing.stores import create


def moved(
    transfer_fails: float, outages: Mapping[str, Spell] = {}, lasting: float = 300, *more: Spell
) -> Simulation:
    """Ten uploads over one link, and five virtual minutes."""
    names = ("north", "south")
    federation = Federation(
        name="virtual",
        sites=(Site(name="north", nucleus=True), Site(name="south")),
        storages=tuple(Storage(name=f"{name}-disk", site=name, url=f"virtual://{name}") for name in names),
        queues=(Queue(name="north-queue", site="north", storage="north-disk"),),
        staging=StagingConstants(storage_rest=600),
    )
    links = LinkBehaviour(transfer_fails=transfer_fails)
    storages = {f"{name}-disk": StorageBehaviour(outages=(spell, *more)) for name, spell in outages.items()}
    scenario = Scenario(name="breakers", federation="virtual.yaml", links=links, storages=storages)
    simulation = Simulation(federation, scenario, seed=1)
    for number in range(10):
        create(simulation.store, File(name=f"user.x:{number}", size=10_000_000, checksum=""))
        create(
            simulation.store,
            NewTransfer(
                file=f"user.x:{number}", source="south-disk", destination="north-disk", direction="upload",
                share="x", priority=50, source_path=f".scratch/virtual/{number}.1/x",
            ),
        )  # fmt: skip
    simulation.run(lasting)
    return simulation


def states(simulation: Simulation) -> Counter[str]:
    return sum(map(Counter, simulation.store.transfer_queries.counts_by_share().values()), Counter())


def test_f4_a_virtual_link_that_breaks_opens_a_breaker() -> None:
    simulation = moved(1.0)
    (found,) = circuit_breakers.of_storages(simulation.runtime)
    assert found.place == ("south-disk", "north-disk")
    assert found.error == "the virtual link broke"
    attempts = [one.attempt for one in simulation.store.queries.transfers(None, 100)]
    assert max(attempts) == 2, "nothing is tried while it is open"


def test_f4_one_that_carries_all_does_not() -> None:
    simulation = moved(0.0)
    assert circuit_breakers.of_storages(simulation.runtime) == ()
    assert states(simulation) == {TransferState.DONE: 10}


@pytest.mark.parametrize("out", ["north", "south"])
def test_f4_a_virtual_storage_that_is_out_is_left_alone_and_serves_when_it_is_back(out: str) -> None:
    outage = {out: Spell(begins=0, ends=900)}
    (found,) = circuit_breakers.of_storages(moved(0.0, outage).runtime)
    assert found.place == (("south-disk", "") if out == "south" else ("", "north-disk"))
    assert found.error == "the virtual storage is out"
    simulation = moved(0.0, outage, lasting=3 * 3600)
    assert circuit_breakers.of_storages(simulation.runtime) == ()
    assert states(simulation) == {TransferState.DONE: 10}


def test_what_moves_when_an_outage_begins_breaks_off_and_goes_on_later() -> None:
    # Ten times 10 MB share 10 MB/s: after five seconds all are half there.
    simulation = moved(0.0, {"south": Spell(begins=5, ends=60)}, lasting=3 * 3600)
    attempts = [one.attempt for one in simulation.store.queries.transfers(None, 100)]
    assert (len(attempts), min(attempts)) == (10, 2)
    assert states(simulation) == {TransferState.DONE: 10}


def test_an_outage_of_a_storage_that_ends_within_another_ends_with_that() -> None:
    long, short = Spell(begins=0, ends=3000), Spell(begins=0, ends=5)
    assert TransferState.DONE not in states(moved(0.0, {"south": long}, 2900, short))
    assert states(moved(0.0, {"south": long}, 6 * 3600, short)) == {TransferState.DONE: 10}


def test_nothing_small_is_delivered_in_an_outage_before_it_is_refused() -> None:
    found = moved(0.0, {"south": Spell(begins=0, ends=3000)}, lasting=2900)
    assert TransferState.DONE not in states(found)
