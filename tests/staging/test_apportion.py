"""Slots in proportion to priority by largest remainder (D3, D4)."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotage.policies.staging.shares import apportion

SHARES = st.dictionaries(
    st.sampled_from([f"s{number}" for number in range(12)]),
    st.tuples(st.integers(0, 60), st.integers(1, 100)),
    max_size=12,
)


def split(shares: dict[str, tuple[int, int]]) -> tuple[dict[str, int], dict[str, int]]:
    return {s: want for s, (want, _) in shares.items()}, {s: priority for s, (_, priority) in shares.items()}


@pytest.mark.parametrize(
    ("slots", "priorities", "expected"),
    [
        (5, {"a": 60, "b": 40}, {"a": 3, "b": 2}),
        (10, {"slow-prod": 20, "validation": 80}, {"slow-prod": 2, "validation": 8}),
        (10, {"a": 1, "b": 100}, {"a": 1, "b": 9}),
        (7, {"a": 1, "b": 1, "c": 1}, {"a": 3, "b": 2, "c": 2}),
        (4, {"a": 50, "b": 30, "c": 20}, {"a": 2, "b": 1, "c": 1}),
        (2, {"a": 10, "b": 30, "c": 20}, {"a": 0, "b": 1, "c": 1}),
        (0, {"a": 10}, {"a": 0}),
    ],
)
def test_d3_slots_follow_priority(slots: int, priorities: dict[str, int], expected: dict[str, int]) -> None:
    assert apportion(slots, dict.fromkeys(priorities, 1000), priorities) == expected


def test_d4_a_share_takes_no_more_than_it_needs_and_the_rest_is_shared() -> None:
    given_ = apportion(10, {"a": 1, "b": 50, "c": 50}, {"a": 80, "b": 10, "c": 20})
    assert given_ == {"a": 1, "b": 3, "c": 6}


@given(st.integers(0, 200), SHARES)
def test_d4_the_total_is_exact_and_no_bound_is_broken(slots: int, shares: dict[str, tuple[int, int]]) -> None:
    wants, priorities = split(shares)
    slots_of = apportion(slots, wants, priorities)
    active = {share for share, want in wants.items() if want}
    assert set(slots_of) == active
    assert sum(slots_of.values()) == min(slots, sum(wants.values()))
    assert all(0 <= slots_of[share] <= wants[share] for share in active)
    if slots >= len(active):
        assert all(slots_of[share] >= 1 for share in active)
    else:
        assert all(slots_of[share] <= 1 for share in active)


@given(st.integers(0, 200), SHARES)
def test_d3_a_higher_priority_never_gets_less_than_a_lower_one_that_wants_no_more(
    slots: int, shares: dict[str, tuple[int, int]]
) -> None:
    wants, priorities = split(shares)
    slots_of = apportion(slots, wants, priorities)
    for high in slots_of:
        for low in slots_of:
            if priorities[high] > priorities[low] and wants[high] >= wants[low]:
                assert slots_of[high] >= slots_of[low]


@given(st.integers(1, 200), SHARES)
def test_d3_unbounded_shares_are_within_one_slot_of_exact_proportion(
    slots: int, shares: dict[str, tuple[int, int]]
) -> None:
    wants, priorities = split(shares)
    slots_of = apportion(slots, wants, priorities)
    total = sum(priorities[share] for share in slots_of)
    exact = {share: Fraction(slots * priorities[share], total) for share in slots_of}
    if all(1 <= exact[share] <= wants[share] for share in exact):
        assert all(abs(slots_of[share] - exact[share]) < 1 for share in exact)


@given(st.integers(0, 200), SHARES)
def test_d3_shares_that_are_between_their_bounds_stay_in_proportion_to_each_other(
    slots: int, shares: dict[str, tuple[int, int]]
) -> None:
    wants, priorities = split(shares)
    slots_of = apportion(slots, wants, priorities)
    between = [share for share in slots_of if 2 < slots_of[share] < wants[share] - 1]
    for one in between:
        for other in between:
            lower = Fraction(slots_of[one] - 1, priorities[one])
            assert lower < Fraction(slots_of[other] + 1, priorities[other])


@given(st.integers(0, 100), SHARES)
def test_the_order_of_shares_does_not_matter(slots: int, shares: dict[str, tuple[int, int]]) -> None:
    wants, priorities = split(shares)
    turned = dict(reversed(wants.items()))
    assert apportion(slots, wants, priorities) == apportion(slots, turned, priorities)


@given(st.integers(0, 40), SHARES, st.integers(0, 2**32 - 1))
def test_d4_lots_move_what_is_left_over_among_equals_alone(
    slots: int, shares: dict[str, tuple[int, int]], seed: int
) -> None:
    wants, priorities = split(shares)
    lots = dict(zip(shares, np.random.default_rng(seed).random(len(shares)).tolist(), strict=True))
    drawn, named = apportion(slots, wants, priorities, lots), apportion(slots, wants, priorities)
    for priority in set(priorities.values()):
        equals = [share for share in drawn if priorities[share] == priority]
        assert sum(drawn[one] for one in equals) == sum(named[one] for one in equals)
    for kind in set(shares.values()):
        given_ = [drawn[share] for share in drawn if shares[share] == kind]
        assert max(given_, default=0) <= min(given_, default=0) + 1


@given(st.integers(1, 40), SHARES, st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_d4_over_many_passes_equal_shares_are_entitled_to_equal_slots(
    slots: int, shares: dict[str, tuple[int, int]], seed: int
) -> None:
    """A share's mean is within one slot of what its priority is worth, and equals have the same."""
    wants, priorities = split(shares)
    random, passes = np.random.default_rng(seed), 400
    got: Counter[str] = Counter()
    for _ in range(passes):
        lots = dict(zip(shares, random.random(len(shares)).tolist(), strict=True))
        got.update(apportion(slots, wants, priorities, lots))
    for one in got:
        equals = [other for other in got if shares[other] == shares[one]]
        mean = sum(got[other] for other in equals) / len(equals)
        # A coin thrown so often: five deviations, at most a quarter of the variance each.
        assert abs(got[one] - mean) <= 5 * 0.5 * passes**0.5
