"""Tests that take too long are ended, as pytest-timeout would end them, by one thread for all."""

import threading

import pytest

from tests.overtime import Overtime
from tests.waiting import PATIENCE


def test_what_takes_too_long_is_told_and_what_ended_before_is_not() -> None:
    overtime, late = Overtime(look=0.5), threading.Event()  # a busy machine may pause here for long
    told: list[str] = []
    overtime.watch(0, lambda: told.append("ended"))()
    overtime.watch(0.05, late.set)
    assert late.wait(PATIENCE)
    assert told == []


def test_what_was_told_once_is_not_told_again_and_the_next_is() -> None:
    overtime, told = Overtime(look=0.01), threading.Semaphore(0)
    for _ in range(2):
        overtime.watch(0, told.release)
        assert told.acquire(timeout=PATIENCE)
    assert not told.acquire(timeout=0.1)


def test_this_test_is_watched_too(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("timeout") == 0:
        pytest.skip("tests run without a limit")
    assert any(thread.name == "overtime" for thread in threading.enumerate())
