"""Whole numbers shared in exact proportion (P4, P12)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.policies.pilots.apportionment import apportion

WEIGHTS = st.floats(1e-9, 1e12)


@given(
    st.lists(st.tuples(WEIGHTS, st.integers(0, 50)), min_size=1, max_size=12),
    st.integers(0, 400),
    st.integers(0, 2**32),
)
def test_the_total_is_exact_and_nobody_gets_more_than_the_most(
    parts: list[tuple[float, int]], total: int, seed: int
) -> None:
    weights, most = np.array([w for w, _ in parts]), np.array([m for _, m in parts], dtype=np.int64)
    counts = apportion(weights, most, total, np.random.default_rng(seed))
    assert int(counts.sum()) == min(total, int(most.sum()))
    assert (counts >= 0).all()
    assert (counts <= most).all()


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=8), st.integers(1, 40), st.integers(0, 2**32))
def test_each_part_is_the_exact_one_rounded_up_or_down(parts: list[float], total: int, seed: int) -> None:
    weights = np.array(parts)
    counts = apportion(weights, np.full(len(parts), 10_000), total, np.random.default_rng(seed))
    exact = weights / weights.sum() * total
    assert (np.abs(counts - exact) < 1 + 1e-6).all()


@pytest.mark.slow
def test_over_many_draws_each_part_comes_up_as_often_as_it_should_also_the_smallest() -> None:
    random = np.random.default_rng(7)
    weights, most = np.array([1000.0, 30.0, 1.0, 400.0]), np.array([1000, 1000, 1000, 2])
    drawn = np.mean([apportion(weights, most, 10, random) for _ in range(20_000)], axis=0)
    assert drawn.tolist() == pytest.approx([8 * 1000 / 1031, 8 * 30 / 1031, 8 / 1031, 2], rel=0.15)
