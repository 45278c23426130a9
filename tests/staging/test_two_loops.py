"""Two loops that give slots from worlds of different moments, on a real store (D4, D5, D8)."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Link
from pilotage.model.records.states import TransferState as X
from pilotage.model.records.transfer_queues import DELIVERING, FINISHING, PREPARING, TransferQueue
from pilotage.model.records.work import File, NewTransfer, Replica
from pilotage.model.values.slot_parts import SMALL_FILE
from pilotage.policies.staging import preparing, settle, slots
from pilotage.store import Store
from pilotage.testing import NOW, three_sites
from pilotage.testing.stores import create, moved, passage
from tests.reading import world_of

SLOTS, EMERGENCY = 3, 2
POLICIES: dict[TransferQueue, Callable[[World], Decision]] = {
    PREPARING: preparing.prepare,
    DELIVERING: slots.start,
    FINISHING: settle.settle,
}
QUEUES = pytest.mark.parametrize("queue", POLICIES, ids=lambda queue: str(queue.name))


def federation(store: Store, **more: Any) -> None:
    """Three slots in each queue and two for emergencies, eight shares of one priority."""
    constants: dict[str, Any] = {"base_priorities": dict.fromkeys("abcdefgh", 50), "sub_shares": False}
    constants |= dict.fromkeys(("preparing_slots", "delivery_slots", "finishing_slots"), SLOTS)
    fed = three_sites(**constants | {"max_emergency": EMERGENCY})
    store.save_federation(replace(fed, **more), "test")


def ask(store: Store, queue: TransferQueue, share: str, count: int, priority: int, **ends: str) -> list[int]:
    """Let so many transfers wait in a queue."""
    values: dict[str, Any] = {"source": "west", "destination": "east", "direction": "download", **ends}
    names = [f"{share}.{priority}.{number}.{values['source']}" for number in range(count)]
    create(store, *(File(name=name, size=2 * SMALL_FILE, checksum="") for name in names))
    create(store, *(Replica(file=name, storage=values["source"]) for name in names))
    new = (NewTransfer(file=name, share=share, priority=priority, **values) for name in names)
    ids = create(store, *new, time=NOW)
    if queue.waiting is not X.QUEUED:
        moved(store, *passage(ids, X.QUEUED, queue.waiting))
    return ids


def read(store: Store, seed: int = 1) -> World:
    return replace(world_of(store, "stage", NOW, seed, limit=100), unawaited=())


def holding(store: Store, queue: TransferQueue) -> Counter[str]:
    return Counter(one.share for one in read(store).transfers if one.state is queue.holding)


def given(decision: Decision, queue: TransferQueue) -> set[int]:
    return {id_ for move in decision.moves if move.target is queue.holding for id_ in move.ids}


@QUEUES
def test_d4_d8_a_loop_that_decided_on_an_older_world_takes_no_slot_that_is_gone(
    store: Store, queue: TransferQueue
) -> None:
    federation(store)
    ask(store, queue, "a", 5, priority=10)
    early = POLICIES[queue](read(store))
    ask(store, queue, "a", 4, priority=20)
    late = POLICIES[queue](read(store))
    assert not given(early, queue) & given(late, queue)
    store.commit(late, "late")
    assert store.commit(early, "early").handed_back == SLOTS
    assert holding(store, queue) == {"a": SLOTS}


def test_d5_two_loops_take_no_more_emergency_slots_than_there_are_and_one_a_share(store: Store) -> None:
    federation(store)
    ask(store, DELIVERING, "a", 5, priority=10)
    store.commit(slots.start(read(store)), "first")
    ask(store, DELIVERING, "b", 5, priority=10)
    early = slots.start(read(store))
    ask(store, DELIVERING, "b", 5, priority=20)
    late = slots.start(read(store))
    store.commit(late, "late")
    assert store.commit(early, "early").handed_back == 1
    assert holding(store, DELIVERING) == {"a": SLOTS, "b": 1}
    for share in "cdefgh":
        ask(store, DELIVERING, share, 2, priority=10)
    decisions = [slots.start(read(store, seed)) for seed in range(1, 9)]
    assert len({move.ids for decision in decisions for move in decision.moves}) > 1
    for decision in decisions:
        store.commit(decision, "any")
    assert holding(store, DELIVERING).total() == SLOTS + EMERGENCY
    assert max(holding(store, DELIVERING)[share] for share in "bcdefgh") == 1


def test_d4_two_loops_take_no_more_of_a_storage_than_its_limit(store: Store) -> None:
    fed = three_sites()
    storages = tuple(replace(one, transfer_slots=2) if one.name == "west" else one for one in fed.storages)
    federation(store, storages=storages)
    leaving = ask(store, DELIVERING, "a", 1, priority=10)
    early = slots.start(read(store))
    coming = ask(store, DELIVERING, "b", 2, priority=20, source="east", destination="west")
    late = slots.start(replace(read(store), transfers=read(store).transfers[1:]))
    assert (given(early, DELIVERING), given(late, DELIVERING)) == (set(leaving), set(coming))
    store.commit(late, "late")
    assert store.commit(early, "early").handed_back == 1
    assert holding(store, DELIVERING) == {"b": 2}


def test_d4_two_loops_take_no_more_of_a_link_than_its_limit(store: Store) -> None:
    federation(store, links=(Link(source="north", destination="east", transfer_slots=1),))
    first = ask(store, DELIVERING, "a", 1, priority=10, source="north-a")
    early = slots.start(read(store))
    ask(store, DELIVERING, "b", 1, priority=20, source="north-b")
    ask(store, DELIVERING, "c", 1, priority=20, source="west")
    late = slots.start(replace(read(store), transfers=read(store).transfers[1:]))
    assert (given(early, DELIVERING), len(given(late, DELIVERING))) == (set(first), 2)
    store.commit(late, "late")
    assert store.commit(early, "early").handed_back == 1
    assert holding(store, DELIVERING) == {"b": 1, "c": 1}


def test_d11_two_loops_prepare_no_more_ahead_than_the_bound_and_the_highest(store: Store) -> None:
    fed = three_sites(max_prepared=4, highest_pass=1, preparing_slots=9, sub_shares=False)
    store.save_federation(fed, "test")
    ask(store, PREPARING, "a", 6, priority=10)
    early = preparing.prepare(read(store))
    ask(store, PREPARING, "a", 6, priority=20)
    late = preparing.prepare(read(store))
    assert (len(given(early, PREPARING)), len(given(late, PREPARING))) == (5, 5)
    store.commit(late, "late")
    assert store.commit(early, "early").handed_back == 5
    store.commit(preparing.prepare(read(store)), "next")
    assert Counter(one.state for one in read(store).transfers)[X.PREPARED] == 5
    assert not holding(store, PREPARING)
