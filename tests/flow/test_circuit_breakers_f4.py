"""A web server dies and comes back: what lies there waits, and other work goes on meanwhile (F4)."""

import http.server
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.movers.http import downloads
from pilotage.flow.calls.places import circuit_breakers
from pilotage.model.records.federation import Queue, Site, StagingConstants, Storage
from pilotage.model.records.states import JobState, TransferState
from pilotage.model.records.work import InputFile
from pilotage.server.api.work.explanations import explained_transfer
from tests.waiting import wait_for

from .house import House

FILES = [f"f{number}" for number in range(6)]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def web(root: Path, port: int) -> Iterator[None]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=str(root)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def far(house: House, tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, int]:
    """A site with a web server that is down, and a queue at north which reads what is there."""
    monkeypatch.setattr(downloads, "PAUSE", 0.01)
    root, port = tmp_path / "far", free_port
    root.mkdir()
    for name in (*FILES, "elsewhere"):
        (root / name).write_bytes(os.urandom(1000))
    (tmp_path / "south").mkdir(exist_ok=True)
    (tmp_path / "south" / "elsewhere").write_bytes((root / "elsewhere").read_bytes())
    found = house.store.federation()
    south = Queue(name="south-queue", site="south", storage="south-disk", num_slots=1000)
    house.store.save_federation(
        replace(
            found,
            sites=(*found.sites, Site(name="far")),
            storages=(*found.storages, Storage(name="far-web", site="far", url=f"http://127.0.0.1:{port}")),
            queues=(*found.queues, south),
            staging=StagingConstants(failing_files=3, storage_rest=60, retry_delay=1),
        ),
        "test",
    )
    return root, port


def asked(house: House, *names: str, storages: tuple[str, ...] = ("far-web",), size: int = 1000) -> list[int]:
    """A task for each file, its job assigned to north's queue; returns the transfers."""
    for name in names:
        house.task(inputs=(InputFile(name=name, size=size, replicas=storages),), queues=("north-queue",))
    house.take("broker")
    return [one.id for one in house.store.queries.transfers(None, 100)]


def passes(house: House, count: int, seconds: float) -> None:
    """Take passes so far apart, each with all deliveries that it starts."""
    for _ in range(count):
        wait_for(lambda: _is_settled(house), "the end of each delivery")
        house.now += seconds


def _is_settled(house: House) -> bool:
    """Take a pass; tells whether it found nothing to do and nothing under way."""
    return not (house.take("stage") or house.store.queries.transfers(TransferState.DELIVERING, 1))


def states(house: House) -> dict[str, tuple[TransferState, int]]:
    return {
        one.file.rpartition(":")[2]: (one.state, one.attempt)
        for one in house.store.queries.transfers(None, 100)
    }


def test_f4_a_dead_server_costs_few_attempts_and_its_files_arrive_once_it_is_back(
    house: House, far: tuple[Path, int], caplog: pytest.LogCaptureFixture
) -> None:
    root, port = far
    asked(house, *FILES)
    passes(house, 3, 0.0)
    (found,) = circuit_breakers.of_storages(house.runtime)
    assert (found.place, found.until - found.since) == (("far-web", ""), 60)
    assert "reading from far-web: circuit breaker open until" in caplog.text
    begun = states(house)
    passes(house, 10, 5.0)
    assert states(house) == begun, "nothing is tried while it is open"
    (first, *_) = house.store.queries.transfers(TransferState.QUEUED, 1)
    told = "\n".join(explained_transfer(house.runtime, first).lines)
    assert "reading from far-web: circuit breaker open until" in told
    assert "deliveries failed, " in told
    house.now = found.until + 1
    passes(house, 2, 0.0)
    tried = {name: one for name, one in states(house).items() if one != begun[name]}
    assert len(tried) == 1, "one probes"
    (longer,) = circuit_breakers.of_storages(house.runtime)
    assert longer.until - longer.since == 120
    with web(root, port):
        house.now = longer.until + 1
        passes(house, 12, 2.0)
    assert circuit_breakers.of_storages(house.runtime) == ()
    assert {state for state, _ in states(house).values()} == {TransferState.DONE}
    for name in FILES:
        assert (house.place / "north/.copies/flow/ligo" / name).read_bytes() == (root / name).read_bytes()
    assert "reading from far-web: circuit breaker closed, something was delivered" in caplog.text


def test_f4_a_file_that_another_storage_has_comes_from_there_meanwhile(
    house: House, far: tuple[Path, int]
) -> None:
    asked(house, *FILES[:3])
    passes(house, 3, 0.0)
    asked(house, "elsewhere", storages=("far-web", "south-disk"))
    passes(house, 2, 0.0)
    assert states(house)["elsewhere"][0] is TransferState.DONE
    (done,) = house.store.queries.transfers(TransferState.DONE, 1)
    # Both are directories here: where their file system can, the files share their blocks.
    assert done.way.startswith(("streamed: their file systems share no blocks", "third-party"))
    assert done.way.endswith("(mover streaming)")
    assert f"  {done.way}" in explained_transfer(house.runtime, done).lines


def test_f4_brokerage_keeps_away_and_a_person_can_lift_it(house: House, far: tuple[Path, int]) -> None:
    asked(house, *FILES[:3])
    passes(house, 3, 0.0)
    task = house.task(inputs=(InputFile(name="f5", size=1000, replicas=("far-web",)),))
    house.take("broker")
    (choice, *_) = house.store.queries.task_choices(task, 1)
    (refusal,) = (one for one in choice.refusals if one.rule == "F4")
    assert set(refusal.queues) == {"north-queue", "south-queue"}
    assert "reading from far-web: circuit breaker open until 2027" in json.dumps(refusal.have)
    assert house.states(task) == {JobState.PENDING: 1}
    house.take("lift")
    assert house.states(task) == {JobState.PENDING: 1}
    assert [one.place for one in circuit_breakers.lift(house.runtime, "far-web", "root")] == [("far-web", "")]
    assert circuit_breakers.of_storages(house.runtime) == ()
    assert circuit_breakers.lift(house.runtime, "far-web", "root") == ()
    house.take("lift")
    assert house.states(task) == {JobState.DEFINED: 1}


def test_f4_missing_files_and_wrong_bytes_close_nothing(house: House, far: tuple[Path, int]) -> None:
    root, port = far
    (root / "f0").unlink()
    with web(root, port):
        asked(house, "f0", "f1", "f2", "f3", size=999)
        passes(house, 3, 0.0)
    assert {state for state, _ in states(house).values()} <= {TransferState.QUEUED, TransferState.FAILED}
    assert circuit_breakers.of_storages(house.runtime) == ()
