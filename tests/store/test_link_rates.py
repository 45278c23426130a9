"""What transfers took in the last hour is the throughput of their links (B35)."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from pilotage.model.records.federation import Link
from pilotage.model.records.states import TransferState as X
from pilotage.model.records.work import File
from pilotage.model.rules.sources import throughput_of
from pilotage.store import Store
from pilotage.store.database.rows import raw_rows
from pilotage.store.transfers.link_rates import link_hours
from pilotage.testing import NOW
from pilotage.testing.stores import FEDERATION, create, moved, new_transfer, passage
from tests.reading import BROKERED, world_of

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
    found = world_of(store, "stage", time, 1, 10).federation.links
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
    assert store.federation().links == (declared,), "what is declared stays as it is"


def test_b35_between_two_measurements_the_federation_is_one_object(store: Store) -> None:
    store.save_federation(FEDERATION, "tester")
    brought(store, "a", 300 * MB, 10, NOW)
    first = world_of(store, "stage", NOW, 1, 10).federation
    assert world_of(store, BROKERED, NOW + 10, 1, 10).federation is first
    store.save_federation(replace(FEDERATION, links=()), "tester")
    assert world_of(store, "stage", NOW + 20, 1, 10).federation is not first


def windows(store: Store, time: float, source: str = "CERN") -> tuple[Any, ...]:
    """MB/s of the link from a site to the other one, over an hour, a day and a week."""
    found = world_of(store, "stage", time, 1, 10).federation.links
    (link,) = (link for link in found if link.source == source)
    return link.throughput_1h, link.throughput_1d, link.throughput_1w


def test_b35_our_own_transfers_feed_the_hour_the_day_and_the_week(store: Store) -> None:
    """Each window stands alone, and one without transfers keeps what is declared."""
    declared = Link(source="CERN", destination="PIC", throughput_1h=80, throughput_1d=7, throughput_1w=6)
    store.save_federation(replace(FEDERATION, links=(declared,)), "tester")
    hour, day = 3600, 86400
    brought(store, "old", 300 * MB, 300, NOW - 3 * day)
    brought(store, "yesterday", 300 * MB, 100, NOW - 5 * hour)
    brought(store, "small", 9 * MB, 1, NOW - 5 * hour)
    brought(store, "renamed", 900 * MB, 1, NOW - hour, source="PIC-disk", destination="PIC-disk")
    brought(store, "now", 300 * MB, 10, NOW - 10)
    assert windows(store, NOW) == (30, pytest.approx(600 / 110), pytest.approx(900 / 410))
    assert windows(store, NOW + 2 * hour) == (80, pytest.approx(600 / 110), pytest.approx(900 / 410))
    assert windows(store, NOW + 21 * hour) == (80, 30, pytest.approx(900 / 410))
    assert windows(store, NOW + 2 * day) == (80, 7, pytest.approx(900 / 410))
    assert windows(store, NOW + 6 * day) == (80, 7, pytest.approx(600 / 110)), "the first is over a week old"
    assert windows(store, NOW + 8 * day) == (80, 7, 6)


def test_b35_sums_of_links_are_kept_for_a_week(store: Store) -> None:
    store.save_federation(FEDERATION, "tester")
    for days in range(10):
        brought(store, f"f{days}", 300 * MB, 10, NOW + days * 86400)
    hours = store.database.read(lambda connection: raw_rows(connection, select(link_hours.c.hour)))
    assert len(hours) == 7
