"""What transfers took in the last hour is the throughput of their links (B35)."""

from dataclasses import replace

from pilotage.model.federation import Link
from pilotage.model.sources import throughput_of
from pilotage.model.states import TransferState as X
from pilotage.model.work import File
from pilotage.store import Store
from pilotage.testing import NOW
from pilotage.testing.stores import FEDERATION, create, moved, new_transfer, passage

MB = 1_000_000


def brought(store: Store, file: str, size: int, took: float, ended: float, **values: str) -> None:
    """A transfer that is done."""
    create(store, File(name=file, size=size, checksum=""), time=ended - took)
    made = create(store, new_transfer(file, **values), time=ended - took)
    started = {"started": ended - took}
    moved(store, *passage(made, X.QUEUED, X.DELIVERING, started), time=ended - took)
    moved(store, *passage(made, X.DELIVERING, X.FINISHING, {"ended": ended}), time=ended)
    moved(store, *passage(made, X.FINISHING, X.DONE), time=ended)


def links(store: Store, time: float) -> dict[tuple[str, str], float | None]:
    found = store.snapshots.for_staging(time, 1, 10).federation.links
    return {(link.source, link.destination): throughput_of(link) for link in found}


def test_b35_the_last_hour_of_a_link_is_what_its_transfers_took(store: Store) -> None:
    declared = Link(source="CERN", destination="PIC", closeness=3, throughput_1d=7)
    store.save_federation(replace(FEDERATION, links=(declared,)), "tester")
    assert links(store, NOW) == {("CERN", "PIC"): 7}
    brought(store, "a", 300 * MB, 10, NOW)
    brought(store, "b", 100 * MB, 30, NOW)
    brought(store, "small", 9 * MB, 1000, NOW)
    brought(store, "back", 50 * MB, 10, NOW, source="PIC-disk", destination="CERN-disk")
    brought(store, "renamed", 900 * MB, 1, NOW, source="PIC-disk", destination="PIC-disk")
    assert links(store, NOW + 59) == {("CERN", "PIC"): 7}, "a measurement stands for a minute"
    assert links(store, NOW + 60) == {("CERN", "PIC"): 10, ("PIC", "CERN"): 5}
    assert links(store, NOW + 3600) == {("CERN", "PIC"): 7}, "after an hour the day counts again"
    assert store.federation().links == (declared,), "what is declared stays as it is"


def test_b35_between_two_measurements_the_federation_is_one_object(store: Store) -> None:
    store.save_federation(FEDERATION, "tester")
    brought(store, "a", 300 * MB, 10, NOW)
    first = store.snapshots.for_staging(NOW, 1, 10).federation
    assert store.snapshots.for_broker(NOW + 10, 1, 10).federation is first
    store.save_federation(replace(FEDERATION, links=()), "tester")
    assert store.snapshots.for_staging(NOW + 20, 1, 10).federation is not first
