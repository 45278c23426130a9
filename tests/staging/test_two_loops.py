"""Two loops that give slots from worlds of different moments, on a real store."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pilotage.model.decision import Create, Decision
from pilotage.model.states import TransferState as X
from pilotage.model.work import File, NewTransfer
from pilotage.staging import shares
from pilotage.store import Store
from pilotage.testing import NOW, three_sites

SLOTS, EMERGENCY = 3, 2


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store with three slots and two for emergencies."""
    opened = Store.open(f"sqlite:///{tmp_path / 'pilotage.db'}")
    constants: dict[str, Any] = {"base_priorities": dict.fromkeys("abcdefgh", 50), "sub_shares": False}
    constants |= {"delivery_slots": SLOTS, "max_emergency": EMERGENCY}
    opened.save_federation(three_sites(**constants), "test")
    yield opened
    opened.close()


def ask(store: Store, share: str, count: int, priority: int) -> None:
    names = [f"{share}.{priority}.{number}" for number in range(count)]
    files = tuple(File(name=name, size=1, checksum="") for name in names)
    transfers = tuple(
        NewTransfer(
            file=name,
            source="west",
            destination="east",
            direction="download",
            share=share,
            priority=priority,
        )
        for name in names
    )
    changes = (Create(records=files, cause="test"), Create(records=transfers, cause="test"))
    store.commit(Decision(step="test", time=NOW, seed=1, changes=changes), "test")


def decide(store: Store, seed: int = 1) -> Decision:
    return shares.start(store.snapshots.for_staging(NOW, seed, limit=100))


def delivering(store: Store) -> Counter[str]:
    transfers = store.snapshots.for_staging(NOW, 1, limit=100).transfers
    return Counter(transfer.share for transfer in transfers if transfer.state is X.DELIVERING)


def test_d4_a_loop_that_decided_on_an_older_world_takes_no_slot_that_is_gone(store: Store) -> None:
    ask(store, "a", 5, priority=10)
    early = decide(store)
    ask(store, "a", 5, priority=20)
    late = decide(store)
    assert not {number for move in early.moves for number in move.ids} & set(late.moves[0].ids)
    store.commit(late, "late")
    assert store.commit(early, "early").handed_back == 3
    assert delivering(store) == {"a": SLOTS}


def test_d5_two_loops_take_no_more_emergency_slots_than_there_are_and_one_a_share(store: Store) -> None:
    ask(store, "a", 5, priority=10)
    store.commit(decide(store), "first")
    ask(store, "b", 5, priority=10)
    early = decide(store)
    ask(store, "b", 5, priority=20)
    late = decide(store)
    store.commit(late, "late")
    assert store.commit(early, "early").handed_back == 1
    assert delivering(store) == {"a": SLOTS, "b": 1}
    for share in "cdefgh":
        ask(store, share, 2, priority=10)
    decisions = [decide(store, seed) for seed in range(1, 9)]
    assert len({move.ids for decision in decisions for move in decision.moves}) > 1
    for decision in decisions:
        store.commit(decision, "any")
    assert delivering(store).total() == SLOTS + EMERGENCY
    assert max(delivering(store)[share] for share in "bcdefgh") == 1
