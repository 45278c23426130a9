"""A cached value holds for some seconds, and what is forgotten or could not be read is read again."""

import pytest

from pilotage.flow.cache import Cache


def test_a_value_is_read_again_when_it_is_old_or_the_clock_was_set_back() -> None:
    cache = Cache(lambda time: time, seconds=5)
    assert [cache.at(time) for time in (10, 15, 15.1, 12, 13)] == [10, 10, 15.1, 12, 12]


def test_a_value_that_is_forgotten_while_it_is_read_is_read_again() -> None:
    found: list[float] = []

    def read(time: float) -> float:
        found.append(time)
        if len(found) == 1:
            cache.forget()
        return time

    cache = Cache(read)
    assert [cache.at(1), cache.at(2), cache.at(3)] == [1, 2, 2]


def test_a_value_that_could_not_be_read_is_read_again() -> None:
    values = iter(["", "there"])

    def read(_: float) -> str:
        if value := next(values):
            return value
        raise OSError("away")

    cache = Cache(read)
    with pytest.raises(OSError, match="away"):
        cache.at(1)
    assert cache.at(1) == "there"
