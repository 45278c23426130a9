"""Preparing, delivering and finishing are queues with slots of their own; D3 to D7 hold in each (D8, D11)."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.world import World
from pilotage.model.records.states import TransferState as X
from pilotage.model.records.transfer_queues import DELIVERING, FINISHING, PREPARING, TransferQueue
from pilotage.model.records.work import Replica, Transfer
from pilotage.model.rules.sources import Sources
from pilotage.policies.staging import preparing, settle, slots
from pilotage.testing import NOW, three_sites, transfer, world

POLICIES: dict[TransferQueue, Callable[[World], Decision]] = {
    PREPARING: preparing.prepare,
    DELIVERING: slots.start,
    FINISHING: settle.settle,
}
SLOTS = {PREPARING: "preparing_slots", DELIVERING: "delivery_slots", FINISHING: "finishing_slots"}
QUEUES = pytest.mark.parametrize("queue", POLICIES, ids=lambda queue: str(queue.name))


def seen(queue: TransferQueue, transfers: list[Transfer], count: int, **constants: Any) -> World:
    """Return a world whose queue has so many slots."""
    fed = three_sites(**{SLOTS[queue]: count, "sub_shares": False, **constants})
    return world(fed, transfers=transfers)


def given(seen: World, queue: TransferQueue) -> list[int]:
    moves = POLICIES[queue](seen).moves
    return sorted(id_ for move in moves if move.target is queue.holding for id_ in move.ids)


def waiting(queue: TransferQueue, shares: str, each: int = 20) -> list[Transfer]:
    """Return transfers that wait, of each share so many, whose priorities differ."""
    return [
        transfer(100 * place + n, queue.waiting, share=share, priority=1 + n % 7)
        for place, share in enumerate(shares, 1)
        for n in range(each)
    ]


@QUEUES
@pytest.mark.parametrize(("bases", "count", "expected"), [((60, 40), 5, (3, 2)), ((20, 80), 10, (2, 8))])
def test_d3_d8_the_published_examples_hold_in_each_queue(
    queue: TransferQueue, bases: tuple[int, int], count: int, expected: tuple[int, int]
) -> None:
    transfers = waiting(queue, "ab")
    chosen = given(seen(queue, transfers, count, base_priorities=dict(zip("ab", bases, strict=True))), queue)
    by_id = {one.id: one for one in transfers}
    assert Counter(by_id[id_].share for id_ in chosen) == dict(zip("ab", expected, strict=True))
    for share in "ab":
        inside = [by_id[id_].priority for id_ in chosen if by_id[id_].share == share]
        outside = [one.priority for one in transfers if one.share == share and one.id not in chosen]
        assert min(inside) >= max(outside)


@QUEUES
def test_d8_the_slots_of_one_queue_are_not_those_of_another(queue: TransferQueue) -> None:
    others = [other for other in POLICIES if other is not queue]
    held = [transfer(10 * place + n, other.holding) for place, other in enumerate(others) for n in range(3)]
    constants = {SLOTS[other]: 3 for other in others}
    assert len(given(seen(queue, [*held, *waiting(queue, "a", 9)], 4, **constants), queue)) == 4


@QUEUES
def test_d7_d8_ageing_holds_in_each_queue(queue: TransferQueue) -> None:
    old = transfer(1, queue.waiting, priority=25, since=NOW - 3600 - 5 * 300, created=NOW - 9000)
    young = transfer(2, queue.waiting, priority=30)
    assert given(seen(queue, [young, old], 1), queue) == [1]
    assert given(seen(queue, [young, replace(old, since=NOW - 3600)], 1), queue) == [2]


def test_d8_a_transfer_passes_the_three_queues_one_after_the_other() -> None:
    fed = three_sites()
    one = transfer(1, X.QUEUED)
    way = [one.state]
    for decide in (*(preparing.prepare, preparing.prepare, slots.start, None, settle.settle, settle.settle),):
        if decide is None:
            one = replace(one, state=X.DELIVERED)
        else:
            replicas = [Replica(file=one.file, storage="north-a")]
            decision = decide(world(fed, transfers=[one], replicas=replicas))
            (target,) = (move.target for move in decision.moves)
            one = replace(one, state=X(target))
        way.append(one.state)
    assert way == [*X][:7]


def test_d8_preparing_takes_the_source_that_is_best_now_and_a_later_attempt_keeps_its_turn() -> None:
    held = [Replica(file=f"file{n}", storage=storage) for n in (1, 2) for storage in ("north-b", "west")]
    transfers = [
        transfer(1, X.PREPARING, source="gone"),
        transfer(2, X.PREPARING, source="west", attempt=2),
        transfer(3, X.PREPARING),
        transfer(4, X.PREPARING, source="north-a", source_path=".scratch/test/1.1/out", direction="upload"),
    ]
    best = Sources(three_sites()).ranked({"north-b", "west"}, "east")[0]
    moves = preparing.prepare(world(three_sites(), transfers=transfers, replicas=held)).moves
    told = {id_: (move.target, move.changes.get("source")) for move in moves for id_ in move.ids}
    assert told == {
        1: (X.PREPARED, best),
        2: (X.PREPARED, "west"),
        3: (X.FAILED, None),
        4: (X.PREPARED, "north-a"),
    }


def test_d8_what_waits_to_be_finished_holds_back_new_deliveries() -> None:
    delivered = [transfer(n, X.DELIVERED) for n in range(5, 12)]
    assert len(given(seen(DELIVERING, [*delivered, *waiting(DELIVERING, "a")], 4), DELIVERING)) == 1


def ahead(count: int, share: str = "a", since: float = NOW - 100) -> list[Transfer]:
    return [transfer(n, X.PREPARED, share=share, since=since) for n in range(1, count + 1)]


def test_d11_no_more_is_prepared_ahead_than_the_bound_but_for_the_highest_of_the_entire_queue() -> None:
    constants = {"max_prepared": 6, "base_priorities": {"a": 90, "b": 50, "c": 10}}
    queue = [
        *(transfer(10 + n, X.QUEUED, share="a", priority=20 + n) for n in range(4)),
        *(transfer(20 + n, X.QUEUED, share="b", priority=40 + n) for n in range(2)),
        transfer(30, X.QUEUED, share="a", priority=1),
    ]
    held = [*ahead(5), transfer(6, X.PREPARED, share="b")]
    assert given(seen(PREPARING, [*held, *queue], 20, **constants), PREPARING) == [13, 20, 21]
    past = [transfer(7, X.PREPARED, share="b"), transfer(8, X.PREPARED, share="b")]
    assert given(seen(PREPARING, [*held, *past, *queue], 20, **constants), PREPARING) == [21]
    assert given(seen(PREPARING, [*held, *queue], 20, **constants, highest_pass=0), PREPARING) == []
    below = given(seen(PREPARING, [*held[1:], *queue], 20, **constants, highest_pass=0), PREPARING)
    assert len(below) == 1


def test_d5_d11_a_share_with_nothing_prepared_passes_the_bound_with_one() -> None:
    """Else a share that is delivered slowly would keep all others from ever being prepared (D10)."""
    queue = [transfer(20 + n, X.QUEUED, share="b", priority=5, since=NOW - 10) for n in range(3)]
    full = seen(PREPARING, [*ahead(6), *queue], 20, max_prepared=6, highest_pass=0)
    assert given(full, PREPARING) == [20]
    (move,) = preparing.prepare(full).moves
    assert move.changes["emergency"] is True
    one = transfer(9, X.PREPARED, share="b")
    assert given(replace(full, transfers=(*full.transfers, one)), PREPARING) == []


def test_d4_the_share_with_less_prepared_is_prepared_first() -> None:
    queue = waiting(PREPARING, "ab", 5)
    constants = {"max_prepared": 8, "highest_pass": 0, "base_priorities": {"a": 50, "b": 50}}
    chosen = given(seen(PREPARING, [*ahead(5), *queue], 20, **constants), PREPARING)
    assert len(chosen) == 3
    assert all(id_ >= 200 for id_ in chosen)


def test_d8_the_account_of_each_queue_is_told() -> None:
    held = world(three_sites(), transfers=[*ahead(2), *waiting(PREPARING, "a", 3)])
    notes = preparing.prepare(held).notes["preparing"]
    assert (notes["slots"], notes["prepared"], notes["bound"]) == (20, 2, 200)
    assert notes["shares"]["a"]["started"] == 3
