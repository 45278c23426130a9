"""Small files share slots: as many as a bundle has take one (D8)."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.records.states import TransferState as X
from pilotage.model.records.work import File, NewTransfer, Transfer
from pilotage.model.values.slot_parts import BUNDLE, SMALL, SMALL_FILE, parts_of
from pilotage.policies.staging.slots import start
from pilotage.store import Store
from pilotage.testing import NOW, three_sites, transfer, world
from pilotage.testing.stores import create, moved, passage
from tests.reading import world_of
from tests.staging.test_shares import BASES, mixtures, started


def some(
    numbers: range, state: X, share: str = "a", size_class: str = SMALL, **fields: object
) -> list[Transfer]:
    return [transfer(number, state, share=share, size_class=size_class, **fields) for number in numbers]


def parts(transfers: list[Transfer], state: X = X.DELIVERING) -> Counter[str]:
    """Parts of slots by share of those in a state."""
    found = Counter[str]()
    for one in transfers:
        if one.state is state:
            found[one.share] += parts_of(one.size_class)
    return found


def test_a_slot_takes_a_bundle_of_small_files_or_one_other() -> None:
    fed = three_sites(delivery_slots=2, sub_shares=False)
    small = some(range(1, 100), X.PREPARED)
    assert len(started(start(world(fed, transfers=small)))) == 2 * BUNDLE
    large = some(range(100, 110), X.PREPARED, size_class="", priority=90)
    assert started(start(world(fed, transfers=[*small, *large]))) == [100, 101]


@pytest.mark.parametrize("files", [1, 2, 5, BUNDLE, 40])
def test_d8_the_federation_says_how_many_small_files_share_a_slot(files: int) -> None:
    """1 is the published text: each transfer has a slot of its own."""
    fed = three_sites(delivery_slots=2, sub_shares=False, files_per_slot=files)
    small = some(range(1, 200), X.PREPARED)
    assert len(started(start(world(fed, transfers=small)))) == 2 * files
    large = some(range(200, 210), X.PREPARED, size_class="", priority=90)
    assert started(start(world(fed, transfers=[*small, *large]))) == [200, 201]


def test_d8_claims_count_slots_as_the_federation_does(store: Store) -> None:
    fed = three_sites(delivery_slots=3, max_emergency=0, sub_shares=False, files_per_slot=1)
    store.save_federation(fed, "test")
    ids = [*_asked(store, "a", 5, 10), *_asked(store, "b", 2, 2 * SMALL_FILE)]
    moved(store, *passage(ids, X.QUEUED, X.PREPARED))
    seen = world_of(store, "stage", NOW, 1, limit=100)
    early, late = start(seen), start(seen)
    assert sum(map(len, store.commit(early, "first").accepted)) == 3
    assert not any(store.commit(late, "late").accepted)
    wider = replace(fed, staging=replace(fed.staging, files_per_slot=16))
    store.save_federation(wider, "test")
    more = store.commit(start(world_of(store, "stage", NOW, 1, limit=100)), "wider")
    assert sum(map(len, more.accepted)), "what runs is counted as the federation says now"


def test_shares_have_slots_in_proportion_whatever_their_files() -> None:
    fed = three_sites(delivery_slots=10, sub_shares=False, base_priorities={"a": 60, "b": 40})
    waiting = some(range(1, 200), X.PREPARED, "a") + some(range(200, 230), X.PREPARED, "b", "")
    ids = started(start(world(fed, transfers=waiting)))
    assert Counter(number < 200 for number in ids) == {True: 6 * BUNDLE, False: 4}


def test_what_needs_a_whole_slot_waits_for_the_parts_and_nothing_takes_them_meanwhile() -> None:
    fed = three_sites(delivery_slots=1, max_emergency=0, sub_shares=False, base_priorities={"a": 50, "b": 50})
    held, waiting = some(range(1, BUNDLE), X.DELIVERING), some(range(20, 40), X.PREPARED)
    large = some(range(50, 52), X.PREPARED, "b", "")
    assert started(start(world(fed, transfers=[*held, *waiting, *large]))) == []
    assert started(start(world(fed, transfers=[*held, *waiting]))) == [20]
    # Its turn has come before the share that has had the slot.
    seen = [start(world(fed, transfers=[*waiting, *large], seed=seed)) for seed in range(20)]
    assert {tuple(started(one)) for one in seen} == {(50,), tuple(range(20, 20 + BUNDLE))}


def test_a_small_file_of_a_share_without_a_slot_starts_beside_the_bundles_of_others() -> None:
    fed = three_sites(delivery_slots=1, sub_shares=False, base_priorities={"a": 50, "b": 50})
    held = some(range(1, BUNDLE + 1), X.DELIVERING, since=NOW - 50)
    urgent = some(range(30, 40), X.PREPARED, "b", since=NOW - 10)
    assert started(start(world(fed, transfers=[*held, *urgent])), emergency=True) == [30]


@given(mixtures(80, size_class=st.sampled_from(["", SMALL, SMALL])), st.integers(1, 12), st.integers(0, 5))
def test_no_pass_gives_more_parts_than_the_slots_have(
    transfers: list[Transfer], slots: int, most: int
) -> None:
    fed = three_sites(delivery_slots=slots, max_emergency=most, sub_shares=False, base_priorities=BASES)
    decision = start(world(fed, transfers=transfers))
    busy = parts(transfers).total()
    sizes = {one.id: parts_of(one.size_class) for one in transfers}
    regular, emergency = (sum(sizes[id_] for id_ in started(decision, one)) for one in (False, True))
    assert not regular or busy + regular <= slots * BUNDLE
    assert not emergency or busy + regular + emergency <= (slots + most) * BUNDLE
    # Less than a slot stays free while anything waits: for what needs a whole one.
    given_now = {*started(decision), *started(decision, emergency=True)}
    waiting = sorted((one for one in transfers if one.state is X.PREPARED), key=lambda one: -one.id)
    # The next of each share; what is behind it does not pass it.
    left = {one.share: one for one in waiting if one.id not in given_now}.values()
    entitled = {share: line["entitled"] for share, line in decision.notes["delivering"]["shares"].items()}
    held = parts(transfers) + Counter({one.share: 0 for one in transfers})
    for one in transfers:
        held[one.share] += sizes[one.id] if one.id in started(decision) else 0
    if any(held[one.share] + sizes[one.id] <= entitled[one.share] * BUNDLE for one in left):
        assert busy + regular > (slots - 1) * BUNDLE


def test_claims_hold_the_parts_of_slots_against_another_loop(store: Store) -> None:
    fed = three_sites(delivery_slots=2, max_emergency=0, sub_shares=False, base_priorities={"a": 50, "b": 50})
    store.save_federation(fed, "test")
    ids = [*_asked(store, "a", 20, 10), *_asked(store, "b", 4, 2 * SMALL_FILE)]
    moved(store, *passage(ids, X.QUEUED, X.PREPARED))
    seen = world_of(store, "stage", NOW, 1, limit=100)
    assert Counter(one.size_class for one in seen.transfers) == {SMALL: 20, "": 4}
    early, late = start(seen), start(seen)
    first = store.commit(early, "first")
    assert [len(ids) for ids in first.accepted] == [BUNDLE, 1]
    assert not any(store.commit(late, "late").accepted)
    # As many small ones end as make room for the others, and no more.
    moved(store, *passage(first.accepted[0][:3], X.DELIVERING, X.DELIVERED))
    again = store.commit(start(world_of(store, "stage", NOW, 1, limit=100)), "again")
    assert [len(ids) for ids in again.accepted if ids] == [3]


def _asked(store: Store, share: str, count: int, size: int) -> list[int]:
    names = [f"{share}.{number}" for number in range(count)]
    create(store, *(File(name=name, size=size, checksum="") for name in names))
    values = {"source": "west", "destination": "east", "priority": 50}
    return create(
        store,
        *(NewTransfer(file=name, share=share, direction="download", **values) for name in names),  # type: ignore[arg-type]
    )
