"""Deliveries in worker processes: what hangs or dies takes nothing with it."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import psutil
import pytest

from pilotage.adapters.movers.contract import violations
from pilotage.adapters.movers.processes import processes, worker_process
from pilotage.adapters.movers.processes.processes import WorkerProcesses
from pilotage.adapters.movers.processes.worker import Orders, Statuses, Worker
from pilotage.adapters.movers.streaming import Streaming
from pilotage.ports.moving import Delivery, DeliveryStatus, Place
from tests.movers.test_contract import local_rig
from tests.waiting import has_ended, wait_for

pytestmark = pytest.mark.slow

CONTENT = bytes(range(256)) * 8000


class Trouble(BaseHTTPRequestHandler):
    """Files by what happens to who asks for them: ``slow`` ends after the half, ``poison`` kills."""

    def do_GET(self) -> None:
        house = self.server.house  # type: ignore[attr-defined]
        kind = self.path.rpartition("/")[2].partition("-")[0]
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: len(CONTENT) // 2])
        if kind == "poison":
            os.kill(house.asker(self.client_address[1]), signal.SIGKILL)
        if kind == "slow":
            house.slow.release()
            house.go_on.wait()
        with suppress(OSError):
            self.wfile.write(CONTENT[len(CONTENT) // 2 :])

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class House:
    """Worker processes that copy from a server of trouble to a directory."""

    def __init__(self, place: Path) -> None:
        self.place, self.slow, self.go_on = place, threading.Semaphore(0), threading.Event()
        self.changed = threading.Event()
        self.mover = WorkerProcesses("streaming", Streaming(self.changed.set), self.changed.set)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Trouble)
        self.server.house = self  # type: ignore[attr-defined]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.go_on.set()
        self.mover.close()
        self.server.shutdown()
        self.server.server_close()

    def asker(self, port: int) -> int:
        """The worker process at the other end of a connection."""
        return next(
            pid
            for pid in self.mover.pids
            for connection in psutil.Process(pid).net_connections("tcp")
            if connection.laddr.port == port
        )

    def delivery(self, name: str, number: int) -> Delivery:
        return Delivery(
            transfer=number,
            attempt=1,
            file=name,
            size=len(CONTENT),
            checksum="",
            source=Place(url=f"http://127.0.0.1:{self.server.server_port}", path=name),
            destination=Place(url=f"file://{self.place}", path=name),
        )

    def start(self, *names: str) -> list[str]:
        orders = [self.delivery(name, number) for number, name in enumerate(names, 1)]
        return [answer.reference for answer in self.mover.start(orders)]

    def ended(self, reference: str) -> DeliveryStatus:
        return wait_for(lambda: self._ended(reference), "the end of the delivery")

    def _ended(self, reference: str) -> DeliveryStatus | None:
        status = self.mover.poll([reference])[reference]
        return None if status.state == "moving" else status

    def names(self) -> set[str]:
        """Files that have their final names."""
        return {path.name for path in self.place.iterdir() if not path.name.startswith(".")}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(processes, "MOST_PROCESSES", 1)  # the innocent are in the same process
    monkeypatch.setattr(processes, "LOOK", 0.05)
    made = House(tmp_path)
    yield made
    made.close()


def test_worker_processes_keep_the_contract_and_end_when_they_have_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = local_rig(tmp_path)
    assert violations(lambda told: WorkerProcesses("streaming", Streaming(told), told), rig) == []
    monkeypatch.setattr(processes, "IDLE", 0.1)
    monkeypatch.setattr(processes, "LOOK", 0.05)
    (tmp_path / "other").mkdir()
    house = House(tmp_path / "other")
    assert house.ended(house.start("good")[0]).error == ""
    wait_for(lambda: not house.mover.pids, "the end of idle processes")
    house.close()


def test_what_a_killed_process_had_is_delivered_all_the_same(house: House) -> None:
    references = house.start("slow-1", "slow-2", "slow-3")
    for _ in references:
        house.slow.acquire()
    assert house.names() == set()
    os.kill(house.mover.pids[0], signal.SIGKILL)
    house.go_on.set()
    assert [house.ended(reference).state for reference in references] == ["delivered"] * 3
    assert {path.read_bytes() for path in house.place.iterdir()} == {CONTENT}
    assert house.names() == {"slow-1", "slow-2", "slow-3"}


def test_a_delivery_that_kills_its_process_fails_and_takes_no_other_with_it(house: House) -> None:
    references = house.start("slow-1", "poison", "slow-2")
    house.go_on.set()
    ends = [house.ended(reference) for reference in references]
    assert [end.state for end in ends] == ["delivered", "failed", "delivered"]
    assert ends[1].error == "the worker process ended by SIGKILL"
    assert house.names() == {"slow-1", "slow-2"}


def test_a_process_that_hangs_as_a_whole_is_ended(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    (reference,) = house.start("slow")
    house.slow.acquire()
    monkeypatch.setattr(worker_process, "SILENCE", 2.0)
    os.kill(house.mover.pids[0], signal.SIGSTOP)
    assert house.ended(reference).error == "the worker process gave no sign of life for 2 s"
    assert house.names() == set()


def test_a_cancelled_delivery_that_does_not_give_up_loses_its_process_when_others_are_done(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "CANCEL_GRACE", 0.1)
    hanging, other = house.start("slow", "good")
    house.slow.acquire()
    (process,) = house.mover.pids
    house.mover.cancel([hanging])
    assert house.ended(other).state == "delivered"
    assert "did not give up" in house.ended(hanging).error
    wait_for(lambda: process not in house.mover.pids, "the end of its process")
    (again,) = house.start("good-2")
    assert house.ended(again).state == "delivered"


def test_a_process_that_its_server_lets_go_ends_at_once(house: House) -> None:
    house.start("slow")
    house.slow.acquire()
    process = psutil.Process(house.mover.pids[0])
    house.mover._processes[0].let_go()
    wait_for(lambda: has_ended(process), "its end")
    assert house.names() == set()


def test_a_process_that_is_let_go_is_given_no_suspect(house: House) -> None:
    mover = house.mover
    with mover._lock:
        going = mover._new(alone=True)
        going.let_go()
        mover._suspects.append(("1.1.1", house.delivery("good", 1)))
        mover._try_suspects()
        assert not going.deliveries
        assert not mover._suspects


def test_a_worker_that_cannot_obey_an_order_ends_instead_of_living_on_deaf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Deaf:
        def recv(self) -> Orders:
            return Orders()

    def unexpected(_: Orders) -> None:
        raise RuntimeError("no such order")

    def ended(code: int) -> None:
        raise SystemExit(code)

    made = Worker.__new__(Worker)
    made._connection = cast("Connection[Statuses, Orders]", Deaf())
    monkeypatch.setattr(made, "_obey", unexpected)
    monkeypatch.setattr(os, "_exit", ended)
    with pytest.raises(SystemExit) as end:
        made._take()
    assert end.value.code == 1


def test_a_process_of_other_code_than_its_server_is_said_to_be_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code is upgraded on the disk while the server runs on with what it has loaded."""
    monkeypatch.setattr(worker_process, "FINGERPRINT", "0.0.9-00000000")
    status = house.ended(house.start("good")[0])
    assert (status.state, "other code than this server" in status.error) == ("failed", True), status


def test_large_files_are_spread_over_processes_and_others_share_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MOST_PROCESSES", 3)
    house.start("slow-1", "slow-2")
    assert len(house.mover.pids) == 1
    monkeypatch.setattr(processes, "LARGE", len(CONTENT))
    house.start("slow-3")
    assert len(house.mover.pids) == 2
    house.start("slow-4", "slow-5", "slow-6")
    assert len(house.mover.pids) == 3
