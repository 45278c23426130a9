"""Two servers on one PostgreSQL: one that ends finishes its transfer, and a frozen one loses it in time."""

import hashlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_for

from .house import House
from .test_killed_in_mid_transfer import CONTENT, FEDERATION, Slow, files, source

__all__ = ["source"]

pytestmark = [pytest.mark.endurance, pytest.mark.acceptance]


@pytest.fixture
def house(tmp_path: Path, source: int, postgresql_url: str, free_port: int) -> Iterator[House]:
    """A server with the API, and two that stage."""
    (tmp_path / "home").mkdir()
    file = tmp_path / "federation.yaml"
    file.write_text(FEDERATION.format(place=tmp_path, port=source))
    stage = ("--no-api", "--only", "stage")
    parts = {"api": (str(file), "--only", "split,broker"), "first": stage, "second": stage}
    made = House(tmp_path / "home", postgresql_url, free_port, file, parts)
    try:
        made.start("api")
        made.call("GET", "/federation")
        made.start("first")
        yield made
    finally:
        if first := made.running.get("first"):
            first.send_signal(signal.SIGCONT)
        made.stop()
        print(made.last_words())


def submit(house: House, name: str) -> None:
    """Submit a task that reads one file from the slow storage."""
    checksum = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    inputs = [{"name": name, "size": len(CONTENT), "checksum": checksum, "replicas": ["web"]}]
    task = {"name": name, "inputs": inputs, "command": ["true"], "scouts": 0}
    house.call("POST", "/tasks", {"tasks": [task]})
    wait_for(lambda: Slow.asked[name] and half_of(house), f"half of {name}")


def half_of(house: House) -> list[Path]:
    return files(house.home.parent / "disk", parts=True)


def transfer(house: House, state: str) -> Any:
    """The transfer once it is in a state."""
    (found,) = house.call("GET", "/transfers")["transfers"]
    return found if found["state"] == state else None


def states(house: House) -> dict[str, str]:
    """The servers that stage, oldest first, by name."""
    found = house.call("GET", "/servers")["servers"]
    return {one["name"]: one["state"] for one in found if "stage" in {loop["name"] for loop in one["loops"]}}


def test_a_server_that_ends_finishes_what_it_has_in_hand(house: House) -> None:
    submit(house, "slow")
    house.running["first"].send_signal(signal.SIGTERM)
    time.sleep(1.5)
    assert list(states(house).values()) == ["live"], "it beats while it waits"
    Slow.go_on.set()
    assert wait_for(lambda: transfer(house, "delivered"), "its end")["attempt"] == 1
    house.running["first"].wait(60)
    assert list(states(house).values()) == ["ended"]
    assert Slow.asked["slow"] == 1


def test_a_frozen_server_loses_its_transfer_in_seconds_and_does_nothing_when_it_wakes(house: House) -> None:
    submit(house, "slow")
    house.start("second")
    wait_for(lambda: list(states(house).values()) == ["live", "live"], "two servers")
    time.sleep(2)
    house.running["first"].send_signal(signal.SIGSTOP)
    frozen = time.monotonic()
    wait_for(lambda: Slow.asked["slow"] == 2, "the second server's transfer")
    print(f"taken over after {time.monotonic() - frozen:.2f} s")
    assert list(states(house).values()) == ["silent", "live"]
    Slow.go_on.set()
    assert wait_for(lambda: transfer(house, "done"), "its end")["attempt"] == 2
    house.running["first"].send_signal(signal.SIGCONT)
    wait_for(lambda: list(states(house).values()) == ["live", "live"], "it is back")
    wait_for(lambda: not half_of(house), "the end of what it had half written")
    time.sleep(2)
    assert Slow.asked["slow"] == 2
    (arrived,) = files(house.home.parent / "disk", parts=False)
    assert arrived.read_bytes() == CONTENT
    assert transfer(house, "done")["attempt"] == 2
