"""Blocking copies as deliveries that are started, polled and cancelled."""

import threading

import pytest

from pilotage.adapters.movers.processes.threads import CopyThreads
from pilotage.ports.moving import (
    Delivered,
    Delivery,
    DeliveryFailed,
    DeliveryStatus,
    Place,
    Progress,
    Started,
)


def delivery(number: int = 1) -> Delivery:
    return Delivery(
        transfer=number,
        attempt=1,
        file="file",
        size=3,
        checksum="",
        source=Place(url="memory://a", path="file"),
        destination=Place(url="memory://b", path="file"),
    )


class Copying:
    """A copy that reads as the test lets it, and threads that tell when one has ended."""

    def __init__(self) -> None:
        self.go, self.ended = threading.Event(), threading.Semaphore(0)
        self.reads: list[int] = []
        self.fault: Exception | None = None
        self.read = threading.Event()

    def copy(self, _: Delivery, progress: Progress) -> Delivered:
        progress(1)
        self.read.set()
        self.go.wait()
        progress(3)
        if self.fault:
            raise self.fault
        return Delivered(size=3, checksum="adler32:00000001")

    def threads(self, most: int = 10) -> CopyThreads:
        return CopyThreads(self.copy, self.ended.release, most)


@pytest.fixture
def copying() -> Copying:
    return Copying()


def started(threads: CopyThreads, number: int = 1) -> str:
    (answer,) = threads.start([delivery(number)])
    assert not answer.error
    return answer.reference


def test_a_delivery_is_seen_moving_and_then_delivered(copying: Copying) -> None:
    threads = copying.threads()
    reference = started(threads)
    copying.read.wait()
    assert threads.poll([reference]) == {reference: DeliveryStatus(state="moving", bytes=1)}
    copying.go.set()
    copying.ended.acquire()
    for _ in range(2):
        assert threads.poll([reference])[reference] == DeliveryStatus(
            state="delivered", bytes=3, checksum="adler32:00000001"
        )


@pytest.mark.parametrize(
    ("fault", "error"), [(DeliveryFailed("no room"), "no room"), (ValueError("odd"), "ValueError: odd")]
)
def test_a_failure_is_told_with_its_reason(copying: Copying, fault: Exception, error: str) -> None:
    threads = copying.threads()
    copying.fault = fault
    copying.go.set()
    reference = started(threads)
    copying.ended.acquire()
    assert threads.poll([reference])[reference] == DeliveryStatus(state="failed", bytes=3, error=error)


def test_one_that_is_cancelled_gives_up_at_its_next_bytes(copying: Copying) -> None:
    threads = copying.threads()
    reference, other = started(threads, 1), started(threads, 2)
    threads.cancel([reference, "nobody's"])
    copying.go.set()
    copying.ended.acquire()
    copying.ended.acquire()
    found = threads.poll([reference, other])
    assert (found[reference].state, found[other].state) == ("failed", "delivered")
    assert "cancelled" in found[reference].error


def test_one_that_hangs_delays_no_other_and_is_left_behind(
    copying: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilotage.adapters.movers.processes.threads.GRACE", 0.05)
    stuck = copying.threads()
    hanging = started(stuck)
    others = Copying()
    others.go.set()
    quick = others.threads()
    reference = started(quick)
    others.ended.acquire()
    assert quick.poll([reference])[reference].state == "delivered"
    stuck.close()
    assert stuck.poll([hanging])[hanging].state == "moving"
    assert stuck.start([delivery(2)]) == [Started(error="the mover is closed")]
    copying.go.set()
    copying.ended.acquire()
    assert stuck.poll([hanging])[hanging].state == "failed"


def test_no_more_threads_than_allowed_hang(copying: Copying) -> None:
    threads = copying.threads(most=2)
    answers = threads.start([delivery(number) for number in range(3)])
    assert [bool(answer.error) for answer in answers] == [False, False, True]
    assert answers[2].error == "2 deliveries are under way: wait until some have ended"
    copying.go.set()
    copying.ended.acquire()
    assert threads.start([delivery(4)])[0].reference


def test_ended_deliveries_are_forgotten_in_the_end(copying: Copying, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilotage.adapters.movers.processes.threads.MOST_ENDED", 2)
    threads = copying.threads()
    copying.go.set()
    references = []
    for number in range(3):
        references.append(started(threads, number))
        copying.ended.acquire()
    assert [threads.poll([one])[one].state for one in references] == ["unknown", "delivered", "delivered"]
    assert threads.poll(["nobody's"])["nobody's"].state == "unknown"
