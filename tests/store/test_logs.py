"""Logs are kept once a stream, for a time, and within bounds of their owners, on both databases."""

import zlib
from dataclasses import replace

import pytest

from pilotage.model.records.constants import LogConstants
from pilotage.model.records.logs import KeptLog, LogKey, LogStream
from pilotage.model.values.durations import DAY
from pilotage.model.values.identity import Identity
from pilotage.store import Store
from pilotage.store.jobs import log_volumes
from pilotage.store.jobs.logs import ROW, usage_log
from pilotage.testing import ALICE

BOB = Identity(name="bob", vo=ALICE.vo)
ELSEWHERE = replace(ALICE, vo="elsewhere")
FIRST = LogKey(kind="job", record=1, attempt=1)


def log(key: LogKey = FIRST, text: bytes = b"text", stream: LogStream = "stdout") -> KeptLog:
    return KeptLog(key=key, stream=stream, size=len(text), head=len(text), data=zlib.compress(text))


def heavy(record: int) -> KeptLog:
    """A log that takes a good 100 kB as it is kept."""
    data = zlib.compress(bytes(1)) + b"\0" * 100_000
    return KeptLog(key=replace(FIRST, record=record), stream="stdout", size=1, head=1, data=data)


def prune(store: Store, time: float, bounds: LogConstants) -> None:
    store.add_measurements()
    store.log_retention.prune(time, bounds)


def kept(store: Store, *records: int) -> list[int]:
    return [record for record in records if store.logs.attempts("job", record)]


def test_the_latest_of_each_stream_is_kept(store: Store) -> None:
    store.logs.put([(log(), ALICE), (log(stream="stderr", text=b"wrong"), ALICE)], 10)
    store.logs.put([(log(text=b"text and more"), ALICE)], 20)
    store.logs.put([(log(replace(FIRST, attempt=2)), ALICE)], 30)
    wrong, out = store.logs.of(FIRST)
    assert (wrong.stream, wrong.time, wrong.data) == ("stderr", 10, b"wrong")
    assert (out.stream, out.time, out.size, out.data) == ("stdout", 20, 13, b"text and more")
    assert store.logs.attempts("job", 1) == [1, 2]
    assert store.logs.attempts("pilot", 1) == []


def test_a_time_line_is_kept_beside_them(store: Store) -> None:
    points = ((1.0, 0.5, 50.0, 0.0, 1.5, 0.0, 0.0), (2.0, 1.5, 50.0, 0.0, 1.5, 0.0, 0.0))
    store.logs.put([(usage_log(FIRST, points), ALICE)], 10)
    assert store.logs.points(FIRST) == points
    assert store.logs.points(replace(FIRST, attempt=2)) == ()


def test_what_is_older_than_the_retention_goes(store: Store) -> None:
    for time in (100, 200):
        store.logs.put([(log(replace(FIRST, record=time)), ALICE)], time)
    prune(store, 250, LogConstants(retention=100))
    assert kept(store, 100, 200) == [200]


@pytest.mark.parametrize("batch", [2, 2000])
def test_the_oldest_of_whoever_has_too_much_go(
    store: Store, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(log_volumes, "BATCH", batch)
    monkeypatch.setattr(log_volumes, "MOST_PEOPLE", batch)
    for record in range(1, 31):
        owner = (ALICE, BOB, ELSEWHERE)[record % 3]
        store.logs.put([(heavy(record), owner)], record)
    everybody = range(1, 31)
    prune(store, 31, LogConstants(by_user=2))
    assert kept(store, *everybody) == list(everybody)
    prune(store, 31, LogConstants(by_user=1))
    assert kept(store, *everybody) == list(range(4, 31))
    store.logs.put([(heavy(3), ALICE)], 3)
    prune(store, 31, LogConstants(by_vo=1))
    bobs_and_alices = [record for record in everybody if record % 3 != 2]
    left = {*kept(store, *everybody)}
    assert left & {*bobs_and_alices} == {*bobs_and_alices[-9:]}
    assert len(left) == 18
    prune(store, 31, LogConstants(total=1))
    assert kept(store, *everybody) == list(range(22, 31))


def test_logs_that_a_killed_process_did_not_add_are_counted_within_a_day(store: Store) -> None:
    bounds = LogConstants(by_user=2, retention=10 * DAY)
    for record in range(1, 20):
        store.logs.put([(heavy(record), ALICE)], record)
    prune(store, 31, bounds)
    store.logs.put([(heavy(20), ALICE)], 20)
    store.logs.put([(heavy(20), ALICE)], 22)
    lost, _ = store.measurements.take()
    assert sum(lost.values()) == len(heavy(20).data) + ROW
    everybody = range(1, 21)
    prune(store, 31, bounds)
    assert kept(store, *everybody) == [*everybody]
    prune(store, 40 + DAY, bounds)
    assert kept(store, *everybody) == [*everybody][1:]


def test_readers_are_known_until_they_stop_asking(store: Store) -> None:
    store.logs.ask("job", 1, 50)
    store.logs.ask("job", 1, 100)
    store.logs.ask("pilot", 1, 70)
    assert store.logs.with_readers(60) == {("job", 1), ("pilot", 1)}
    prune(store, 80, LogConstants())
    assert store.logs.with_readers(60) == {("job", 1)}
    assert store.logs.with_readers(100) == frozenset()
