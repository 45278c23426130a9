"""A server reports to systemd when it is ready, lives and ends, as ``sd_notify`` says."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pilotage.server.service_manager import ServiceManager
from tests.waiting import wait_for


@contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    """A service manager's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(60)
        yield manager


def messages_within(manager: socket.socket, seconds: float) -> int:
    """How many messages came within some seconds."""
    time.sleep(seconds)
    count = 0
    while select.select([manager], [], [], 0)[0]:
        manager.recv(1000)
        count += 1
    return count


@contextmanager
def server(home: Path, manager: str, watchdog: float, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server that a manager watches."""
    environment = {
        **os.environ,
        "PILOTAGE_HOME": str(home),
        "PILOTAGE_STORE": f"sqlite:///{home}/store.db",
        "NOTIFY_SOCKET": manager,
        "WATCHDOG_USEC": str(int(watchdog * 1e6)),
    }
    command = [sys.executable, "-m", "pilotage.cli", "up", *options]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("with_api", [True, False])
def test_a_server_reports_that_it_is_ready_lives_and_ends(
    tmp_path: Path, free_port: int, with_api: bool
) -> None:
    options = ("--port", str(free_port)) if with_api else ("--no-api",)
    address = str(tmp_path / "manager")
    with listening(address) as manager, server(tmp_path / "home", address, 0.9, *options) as process:
        state = manager.recv(1000).decode()
        assert state == f"READY=1\nSTATUS={'serves requests' if with_api else 'runs loops without the API'}"
        if with_api:
            socket.create_connection(("127.0.0.1", free_port), timeout=10).close()
        assert {manager.recv(1000) for _ in range(3)} == {b"WATCHDOG=1"}
        process.send_signal(signal.SIGSTOP)
        assert messages_within(manager, 3) <= 1  # may have been on its way
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        while (message := manager.recv(1000)) == b"WATCHDOG=1":
            pass
        assert message == b"STOPPING=1"
        assert process.wait(60) == 0


@pytest.mark.slow
def test_a_server_whose_store_is_away_ends_when_it_is_told_to(tmp_path: Path) -> None:
    store, log = "postgresql+psycopg://pilotage@127.0.0.1:9/pilotage", tmp_path / "log"
    environment = {**os.environ, "PILOTAGE_HOME": str(tmp_path / "home"), "PILOTAGE_STORE": store}
    command = [sys.executable, "-m", "pilotage.cli", "up", "--no-api"]
    with log.open("wb") as lines, subprocess.Popen(command, env=environment, stderr=lines) as process:
        wait_for(lambda: "try 2" in log.read_text(), "a server that waits for its store")
        process.terminate()
        assert process.wait(30) == 0


def test_a_manager_with_an_abstract_address_and_without_a_watchdog_gets_no_beat() -> None:
    name = f"@pilotage-test-{os.getpid()}"
    environment = {"NOTIFY_SOCKET": name, "HOME": "/root"}
    with listening(f"\0{name[1:]}") as channel:
        manager = ServiceManager.take(environment)
        assert (environment, manager.pause) == ({"HOME": "/root"}, None)
        manager.beat()
        manager.report_end()
        assert channel.recv(1000) == b"STOPPING=1"


def test_a_watchdog_of_another_process_is_not_this_one_s() -> None:
    environment = {"NOTIFY_SOCKET": "@x", "WATCHDOG_PID": "1", "WATCHDOG_USEC": "1000000"}
    assert ServiceManager.take(environment).pause is None
    assert environment == {}


def test_a_manager_that_is_away_is_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ServiceManager(str(tmp_path / "nobody"), 0).report_ready("serves requests")
    assert "the service manager at" in caplog.text
    caplog.clear()
    ServiceManager("", 0).report_ready("serves requests")
    assert caplog.text == ""
