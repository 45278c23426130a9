"""The pace of loops."""

import pytest

from pilotage.flow import loops


def test_a_pass_that_changed_nothing_is_followed_by_a_rest_that_grows_with_its_cost() -> None:
    assert loops._pause(changed=0, taken=0.0) == loops.SHORTEST_PAUSE
    assert loops._pause(changed=0, taken=0.1) == loops.REST * 0.1
    assert loops._pause(changed=0, taken=60.0) == loops.LONGEST_REST


def test_so_is_one_that_took_long_for_the_little_it_changed() -> None:
    assert loops._pause(changed=5000, taken=1.0) == loops.SHORTEST_PAUSE
    assert loops._pause(changed=10, taken=0.022) == pytest.approx(loops.REST * 0.02)
    assert loops._pause(changed=1, taken=5.0) == loops.LONGEST_REST_AFTER_CHANGES
