"""Calls to the outside: bounded for each place and in time, and a dead place delays nobody else."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from pilotage.flow.outside import workers
from pilotage.flow.outside.workers import PlaceBusy, Workers
from tests.waiting import PATIENCE, wait_for


@pytest.fixture
def pool() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.close()


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """A storage that answers only when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_an_answer_and_an_error_come_back(pool: Workers) -> None:
    assert pool.call("disk", lambda: 7).result(PATIENCE) == 7

    def fails() -> None:
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        pool.call("disk", fails).result(PATIENCE)


def test_a_dead_place_delays_nobody_else(pool: Workers, hang: threading.Event) -> None:
    stuck = [pool.call("dead", hang.wait) for _ in range(50)]
    assert [pool.call(f"disk-{number}", lambda: "alive").result(PATIENCE) for number in range(5)] == [
        "alive"
    ] * 5
    assert not any(future.done() for future in stuck)


def test_a_call_that_does_not_come_back_is_given_up_when_its_time_is_over(
    pool: Workers, hang: threading.Event
) -> None:
    stuck = pool.call("slow", hang.wait, time_limit=0.1)
    with pytest.raises(TimeoutError, match="no answer within"):
        stuck.result(PATIENCE)
    assert pool.call("slow", lambda: "the next one").result(PATIENCE) == "the next one"


@pytest.mark.slow
def test_a_place_where_too_many_calls_are_stuck_is_refused_until_one_comes_back(
    pool: Workers, hang: threading.Event
) -> None:
    for _ in range(workers.MOST_STUCK):
        with pytest.raises(TimeoutError):
            pool.call("dead", hang.wait, time_limit=0.05).result(PATIENCE)
    with pytest.raises(PlaceBusy, match="dead does not answer: 8 calls never came back"):
        pool.call("dead", lambda: None).result(PATIENCE)
    hang.set()
    assert _eventually(pool).result(PATIENCE) == "alive"


def _eventually(pool: Workers) -> "Future[str]":
    """The first call that is taken."""

    def taken() -> "Future[str] | None":
        future = pool.call("dead", lambda: "alive")
        return None if future.done() and isinstance(future.exception(), PlaceBusy) else future

    return wait_for(taken, "a call is taken")


def test_no_more_than_a_few_calls_reach_a_place_at_once(pool: Workers) -> None:
    lock, now, most, full = threading.Lock(), [0], [0], threading.Event()

    def count() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            if now[0] == workers.AT_ONCE:
                full.set()
        assert full.wait(PATIENCE), "so many are let through"
        threading.Event().wait(0.01)
        with lock:
            now[0] -= 1

    for future in [pool.call("disk", count) for _ in range(40)]:
        future.result(PATIENCE)
    assert most[0] == workers.AT_ONCE


def test_what_waits_for_a_place_is_bounded(
    pool: Workers, hang: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MOST_WAITING", 3)
    for _ in range(workers.AT_ONCE + 3):
        pool.call("slow", hang.wait)
    with pytest.raises(PlaceBusy, match="3 calls wait already"):
        pool.call("slow", hang.wait).result(PATIENCE)


def test_nothing_is_started_after_the_end(pool: Workers) -> None:
    pool.close()
    with pytest.raises(PlaceBusy, match="stopping"):
        pool.call("disk", lambda: None).result(PATIENCE)
