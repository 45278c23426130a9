"""Many small files: one after another in lanes, with their names given together; each fails alone."""

import os
import signal
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pilotage.adapters.movers.processes.processes import WorkerProcesses
from pilotage.adapters.movers.processes.small_file_threads import SmallFileThreads
from pilotage.adapters.movers.storages.local import LocalBackend
from pilotage.adapters.movers.streaming import Streaming
from pilotage.model.values.slot_parts import BUNDLE
from pilotage.ports.moving import Delivery, DeliveryStatus, Mover, Place
from tests.waiting import PATIENCE, wait_for

CONTENT = b"small file" * 100


class Server(BaseHTTPRequestHandler):
    """Gives every file, but those whose name says otherwise."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        house: House = self.server.house  # type: ignore[attr-defined]
        kind = self.path.rpartition("/")[2].partition("-")[0]
        with house.lock:
            house.asked += 1
            house.under_way += 1
            house.most = max(house.most, house.under_way)
        if kind == "held":
            house.held.release()
            house.go_on.wait()
        with house.lock:
            house.under_way -= 1
        self.send_response(404 if kind == "missing" else 200)
        body = b"" if kind == "missing" else CONTENT[:-1] + b"?" if kind == "wrong" else CONTENT
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class House:
    """A server of small files, and a directory."""

    def __init__(self, place: Path) -> None:
        self.place, self.lock, self.changed = place, threading.Lock(), threading.Event()
        self.asked = self.under_way = self.most = 0
        self.held, self.go_on = threading.Semaphore(0), threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
        self.server.house = self  # type: ignore[attr-defined]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def order(self, number: int, kind: str = "right", share: str = "a", attempt: int = 1) -> Delivery:
        return Delivery(
            transfer=number,
            attempt=attempt,
            file=f"{kind}-{number}",
            size=len(CONTENT),
            checksum=f"adler32:{zlib.adler32(CONTENT):08x}",
            source=Place(url=f"http://127.0.0.1:{self.server.server_port}", path=f"{kind}-{number}"),
            destination=Place(url=f"file://{self.place}", path=f"run/{number % 3}/{kind}-{number}"),
            instance="house",
            share=share,
        )

    def started(self, mover: Mover, orders: list[Delivery]) -> list[str]:
        return [one.reference for one in mover.start(orders)]

    def ended(self, mover: Mover, references: list[str]) -> list[DeliveryStatus]:
        def found() -> list[DeliveryStatus] | None:
            statuses = [mover.poll([one])[one] for one in references]
            return None if any(one.state == "moving" for one in statuses) else statuses

        return wait_for(found, "deliveries end")

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.place.rglob("*") if path.is_file()}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    found = House(tmp_path)
    yield found
    found.go_on.set()
    found.server.shutdown()
    found.server.server_close()


def test_a_file_that_fails_in_a_bundle_fails_alone_with_its_reason(house: House) -> None:
    mover = Streaming(house.changed.set)
    kinds = ["right", "missing", "right", "wrong"] * 10
    references = house.started(mover, [house.order(n, kind) for n, kind in enumerate(kinds)])
    statuses = house.ended(mover, references)
    for kind, status in zip(kinds, statuses, strict=True):
        assert status.state == ("delivered" if kind == "right" else "failed")
        assert {"right": "", "missing": "404", "wrong": "checksum"}[kind] in status.error
        assert status.fault == {"right": "", "missing": "file", "wrong": "altered"}[kind]
    assert house.files() == {f"right-{n}": CONTENT for n, kind in enumerate(kinds) if kind == "right"}
    again = house.started(mover, [house.order(1, "right", attempt=2)])
    assert house.ended(mover, again)[0].state == "delivered"


def test_a_bundle_is_one_stream_and_every_share_has_its_own(house: House) -> None:
    mover = Streaming(house.changed.set)
    slow = [house.order(n, "held" if n % BUNDLE == 0 else "right") for n in range(2 * BUNDLE)]
    references = house.started(mover, slow)
    for _ in range(2):
        assert house.held.acquire(timeout=PATIENCE)
    # Both lanes of the share are held up; another share's, such as an emergency, is not.
    urgent = house.started(mover, [house.order(100, share="b")])
    assert house.ended(mover, urgent)[0].state == "delivered"
    house.go_on.set()
    assert {one.state for one in house.ended(mover, references)} == {"delivered"}
    assert house.most <= 3


def test_one_of_a_bundle_is_cancelled_and_the_others_arrive(house: House) -> None:
    mover = Streaming(house.changed.set)
    orders = [house.order(n, "held" if n == 0 else "right") for n in range(BUNDLE)]
    references = house.started(mover, orders)
    assert house.held.acquire(timeout=PATIENCE)
    mover.cancel([references[0], references[5]])
    house.go_on.set()
    statuses = house.ended(mover, references)
    assert [n for n, one in enumerate(statuses) if one.state == "failed"] == [0, 5]
    assert "cancelled" in statuses[5].error
    assert house.files().keys() == {order.file for n, order in enumerate(orders) if n not in (0, 5)}


@pytest.mark.slow
def test_a_worker_killed_in_a_bundle_loses_nothing_and_leaves_nothing_half_written(house: House) -> None:
    mover = WorkerProcesses("streaming", Streaming(house.changed.set), house.changed.set)
    orders = [house.order(n, "held" if n == 3 else "right") for n in range(BUNDLE)]
    references = house.started(mover, orders)
    assert house.held.acquire(timeout=PATIENCE)
    os.kill(mover.pids[0], signal.SIGKILL)
    house.go_on.set()
    assert {one.state for one in house.ended(mover, references)} == {"delivered"}
    assert house.files() == {order.file: CONTENT for order in orders}
    mover.close()


def test_a_disk_that_refuses_one_name_keeps_no_other_from_its_own(house: House) -> None:
    (house.place / "run/0/right-0").mkdir(parents=True)
    mover = Streaming(house.changed.set)
    statuses = house.ended(mover, house.started(mover, [house.order(n) for n in range(9)]))
    assert [n for n, one in enumerate(statuses) if one.state == "failed"] == [0]
    draft = LocalBackend(f"file://{house.place}", {}).draft("run/0/right-0", ".x.part", [CONTENT])
    with pytest.raises(IsADirectoryError):
        draft.rename()
    draft.unlink()
    draft.close()
    assert house.files() == {f"right-{n}": CONTENT for n in range(1, 9)}


@pytest.mark.parametrize(("bundle", "most"), [(BUNDLE, 3), (1, 2 * BUNDLE + 1), (11, 3)])
def test_d8_lanes_are_as_many_as_the_bundles_that_wait(bundle: int, most: int) -> None:
    lanes, go_on, begun, done = (
        SmallFileThreads(),
        threading.Event(),
        threading.Semaphore(0),
        threading.Semaphore(0),
    )

    def running() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.name == "lane-of this test"]

    def task() -> None:
        begun.release()
        go_on.wait(PATIENCE)
        done.release()

    for _ in range(2 * BUNDLE + 1):
        lanes.add("of this test", task, bundle)
    for _ in range(most):
        assert begun.acquire(timeout=PATIENCE)
    assert len(running()) == most
    go_on.set()
    for _ in range(2 * BUNDLE + 1):
        assert done.acquire(timeout=PATIENCE)
    wait_for(lambda: not running(), "lanes end")
