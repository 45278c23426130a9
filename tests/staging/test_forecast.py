"""A waiting transfer is told when its delivery is likely to start, as the shares are then (D3, D4)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.records.states import TransferState as X
from pilotage.model.records.transfer_queues import TransferCount
from pilotage.model.rules.transfer_limits import Room
from pilotage.policies.staging.forecast import ShareLoad, deliveries_before, wait
from pilotage.testing import three_sites, transfer


def count(share: str, number: int, state: X = X.QUEUED, source: str = "west", **values: str) -> TransferCount:
    size = values.get("size_class", "")
    return TransferCount(
        share=share,
        source=source,
        destination="east",
        state=state,
        size_class=size,
        emergency=False,
        transfers=number,
    )


def test_alone_a_share_has_all_slots() -> None:
    assert wait(10, {"a": ShareLoad(50, 100)}, "a", 50) == 5


def test_beside_others_a_share_goes_through_its_part() -> None:
    shares = {"a": ShareLoad(60, 1000), "b": ShareLoad(40, 1000)}
    assert wait(5, shares, "a", 30) == 10
    assert wait(5, shares, "b", 30) == 15


def test_the_slots_of_a_share_that_is_through_are_the_others() -> None:
    shares = {"a": ShareLoad(60, 30), "b": ShareLoad(40, 1000)}
    # Ten deliveries long b has two slots, and then all five.
    assert wait(5, shares, "b", 20) == 10
    assert wait(5, shares, "b", 45) == 15


def test_more_shares_than_slots_take_turns() -> None:
    shares = {name: ShareLoad(50, 100) for name in "abcd"}
    assert wait(2, shares, "a", 10) == 20


@given(
    st.dictionaries(
        st.sampled_from("abcde"),
        st.builds(ShareLoad, st.integers(1, 100), st.floats(0, 500, allow_nan=False)),
        min_size=1,
    ),
    st.integers(1, 40),
    st.floats(0.1, 500),
)
def test_no_wait_is_shorter_than_alone_nor_longer_than_last(
    shares: dict[str, ShareLoad], slots: int, starts: float
) -> None:
    share = min(shares)
    everything = sum(load.rest for load in shares.values()) + starts
    found = wait(slots, shares, share, starts)
    assert starts / slots <= found * (1 + 1e-6)
    assert found <= everything * (1 + 1e-6)


def test_a_storage_with_a_limit_is_waited_for_in_its_own_slots() -> None:
    fed = three_sites(delivery_slots=40)
    slow = replace(
        fed,
        storages=tuple(replace(one, transfer_slots=2) if one.name == "west" else one for one in fed.storages),
    )
    mine = transfer(1, X.PREPARED, share="a", source="west", destination="east")
    counts = [count("a", 40, X.PREPARED), count("b", 40, X.PREPARED)]
    free, bound = (
        deliveries_before(mine, 39, counts, one.staging, Room(one, (), time=0)) for one in (fed, slow)
    )
    assert free == pytest.approx(2)
    assert bound == pytest.approx(40)


def test_small_files_take_a_part_of_a_slot() -> None:
    fed = three_sites(delivery_slots=4)
    mine = transfer(1, X.PREPARED, share="a", source="west", destination="east", size_class="small")
    counts = [count("a", 640, X.PREPARED, size_class="small")]
    assert deliveries_before(mine, 39, counts, fed.staging, Room(fed, (), time=0)) == 10
