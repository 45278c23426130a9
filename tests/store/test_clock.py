"""Times that are compared come from the database's clock, and a skew is said."""

import logging
import time

import pytest
from sqlalchemy.exc import OperationalError

from pilotage.server import runtime_of
from pilotage.store import Store
from pilotage.store.clock import DatabaseClock


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
        return DatabaseClock(self.read, lambda: self.local, lambda: self.steady, every=60)


def test_the_time_is_the_databases_whatever_this_machines_clock_says() -> None:
    times = Times()
    times.local += 3 * 3600
    clock = times.clock()
    assert clock() == times.database
    times.pass_by(59)
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
