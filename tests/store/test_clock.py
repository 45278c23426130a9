"""Times that are compared come from the database's clock, and a skew is said."""

import logging
import threading
import time
from collections.abc import Callable

import pytest
from sqlalchemy.exc import OperationalError

from pilotage.model.rules.timeouts import LEASED
from pilotage.model.values.step_names import PROVISION
from pilotage.server.process import runtime_of
from pilotage.store import Store
from pilotage.store.clock import FASTER, LONGEST_GAP, DatabaseClock, MonotoneClock
from pilotage.store.servers import iterations


def at_once(work: Callable[[], None]) -> None:
    work()


class Times:
    """A database's time and this machine's, as the test says."""

    def __init__(self) -> None:
        self.database, self.local, self.steady = 1_000_000.0, 1_000_000.0, 50.0
        self.readings = 0
        self.away = False

    def read(self) -> float:
        self.readings += 1
        if self.away:
            raise OperationalError("SELECT", {}, Exception("no connection"))
        return self.database

    def pass_by(self, seconds: float) -> None:
        self.database, self.local, self.steady = (
            time + seconds for time in (self.database, self.local, self.steady)
        )

    def clock(self) -> DatabaseClock:
        return DatabaseClock(self.read, lambda: self.local, lambda: self.steady, every=60, start=at_once)


def test_the_time_is_the_databases_whatever_this_machines_clock_says() -> None:
    times = Times()
    times.local += 3 * 3600
    clock = times.clock()
    assert clock() == times.database
    for _ in range(5):
        times.pass_by(10)
        clock()
    times.pass_by(9)
    times.local -= 9999
    assert clock() == times.database
    assert times.readings == 1, "the database is not asked each time"


def test_the_database_is_read_again_before_clocks_drift_apart() -> None:
    times = Times()
    clock = times.clock()
    times.pass_by(60)
    times.database += 0.5
    assert clock() == times.database
    assert times.readings == 2


def test_while_the_database_is_away_time_goes_on() -> None:
    times = Times()
    clock = times.clock()
    times.away = True
    times.pass_by(90)
    assert clock() == times.database
    times.away = False
    times.pass_by(60)
    assert clock() == times.database
    assert times.readings == 3


def test_a_skew_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    times = Times()
    times.local += 7200
    with caplog.at_level(logging.WARNING):
        clock = times.clock()
        times.pass_by(61)
        clock()
        assert [record.getMessage() for record in caplog.records] == [
            "this machine's clock is 7200 s ahead of the database's, whose time counts; let NTP set it"
        ]
        times.local -= 7300
        times.pass_by(61)
        clock()
    assert "100 s behind the database's" in caplog.records[-1].getMessage()


def test_a_store_tells_the_time_of_its_database(postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 10_800)
    store = Store.open(postgresql_url)
    try:
        assert store.clock() == pytest.approx(now, abs=60)
        runtime = runtime_of(store)
        assert runtime.begin(1).time == pytest.approx(now, abs=60), (
            "no heartbeat seems hours old to its passes"
        )
        runtime.close()
    finally:
        store.close()


def test_a_reading_that_hung_is_discarded() -> None:
    times = Times()
    hang = 0.0

    def read() -> float:
        times.pass_by(hang)
        return times.database

    clock = DatabaseClock(read, lambda: times.local, lambda: times.steady, every=60, start=at_once)
    times.pass_by(61)
    hang = 60.0
    assert clock() == times.database
    hang = 0.0
    times.pass_by(59)
    assert clock() == times.database


def test_nobody_waits_for_a_database_that_hangs() -> None:
    """A server asks for the time where it accepts requests: it would not even say that it lives."""
    times, go_on, hangs = Times(), threading.Event(), False

    def read() -> float:
        if hangs:
            go_on.wait(30)
        return times.database

    clock = DatabaseClock(read, lambda: times.local, lambda: times.steady, every=60)
    times.pass_by(61)
    hangs = True
    begun = time.monotonic()
    for _ in range(3):
        assert clock() == times.database
    assert time.monotonic() - begun < 10
    go_on.set()


def test_of_slow_first_readings_the_quickest_counts() -> None:
    times = Times()
    hangs = [40.0, 2.0, 30.0, 20.0]

    def read() -> float:
        times.pass_by(hangs.pop(0) if hangs else 0.0)
        return times.database

    clock = DatabaseClock(read, lambda: times.local, lambda: times.steady, every=60, start=at_once)
    assert abs(clock() - times.database) <= 1.0


def test_a_server_that_was_frozen_after_a_step_does_not_follow_what_it_read_before() -> None:
    """Such a server was 149 s ahead of the others, and for 20 minutes histories ran backwards."""
    times, readings = Times(), list[Callable[[], None]]()
    read = DatabaseClock(times.read, lambda: times.local, lambda: times.steady, start=readings.append)
    clock = MonotoneClock(read, lambda: times.steady)
    clock()
    times.pass_by(61)
    times.database += 149
    clock()
    readings.pop()()
    times.database -= 149
    times.pass_by(600)
    assert clock() - times.database < LONGEST_GAP
    readings.pop()()
    times.pass_by(LONGEST_GAP)
    assert clock() - times.database < LONGEST_GAP
    for _ in range(6):
        times.pass_by(LONGEST_GAP)
        clock()
    assert clock() == times.database


def test_the_database_is_read_again_after_a_gap() -> None:
    times = Times()
    clock = times.clock()
    times.pass_by(LONGEST_GAP + 1)
    times.database += 3
    assert clock() == times.database
    assert times.readings == 2


def test_a_clock_that_is_set_back_does_not_go_back_and_meets_the_right_time_again() -> None:
    times = Times()
    clock = MonotoneClock(lambda: times.local, lambda: times.steady)
    before = clock()
    times.local -= 3600
    assert clock() >= before
    times.pass_by(10)
    assert clock() == pytest.approx(before + 9), "time goes on: nothing waits for an hour"
    for _ in range(3600):
        times.pass_by(10)
        told = clock()
        assert told >= times.local
    assert told == times.local


def test_a_clock_that_is_set_ahead_is_met_slowly_and_one_that_is_set_right_again_did_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An hour ahead at once, every pilot would seem silent for an hour, and every lease be over."""
    times = Times()
    clock = MonotoneClock(lambda: times.local, lambda: times.steady)
    begun = clock()
    times.local += 3600
    assert clock() == begun
    for _ in range(60):
        times.pass_by(10)
        clock()
    assert clock() <= begun + 600 * FASTER
    assert [record.getMessage() for record in caplog.records] == [
        "the clock was set 3600 s ahead: time runs faster until both agree"
    ]
    times.local -= 3600
    for _ in range(360):
        times.pass_by(10)
        assert clock() >= times.local
    assert clock() == times.local


def test_a_clock_that_stays_ahead_is_met_in_the_end() -> None:
    times = Times()
    clock = MonotoneClock(lambda: times.local, lambda: times.steady)
    clock()
    times.local += 3600
    for _ in range(1800):
        times.pass_by(10)
        clock()
    assert clock() == times.local


def test_a_lease_ends_before_its_time_out_at_any_rate_of_the_clock() -> None:
    assert LEASED * FASTER < 0.8


def test_a_small_step_is_taken_at_once() -> None:
    times = Times()
    clock = MonotoneClock(lambda: times.local, lambda: times.steady)
    clock()
    times.local += 3
    assert clock() == times.local


@pytest.mark.parametrize("step", [-7200.0, 7200.0])
def test_a_clock_is_as_right_as_its_database_where_its_server_starts(step: float) -> None:
    """Nothing is known of the time that a server was away: what was written is the past."""
    times = Times()
    newest = times.local - 7200.0 if step > 0 else times.local + 7200.0
    clock = MonotoneClock(lambda: times.local, lambda: times.steady, newest=newest)
    assert clock() == max(times.local, newest)


def test_the_time_of_a_store_does_not_go_back_behind_what_it_knows(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Pilots are made all the same where a server starts again an hour earlier."""
    ahead = time.time() + 3600
    store = Store.open(store_url, clock=lambda: ahead)
    store.database.write(lambda connection: iterations.note(connection, PROVISION, ahead))
    store.close()
    again = Store.open(store_url)
    try:
        assert again.clock() >= ahead
        assert "was set back" in caplog.text
    finally:
        again.close()
