"""``pilotage queues test``: what a pilot found, or why nothing came."""

from typing import Any

import pytest

from .conftest import FakeServer, Pilotage

PILOT: dict[str, Any] = {
    "id": 7,
    "queue": "short",
    "state": "running",
    "created": 100.0,
    "since": 142.0,
    "node": "n12",
    "error": "",
}
NODE = {
    "cores": 4,
    "machine_cores": 64,
    "memory": 0,
    "machine_memory": 256000,
    "disk": 81000.0,
    "gpus": [],
    "containers": ["apptainer"],
    "routes": ["IPv4"],
    "walltime": 3600,
    "python": "3.9.18",
    "system": "Linux",
    "limited_by": "cgroup v2",
    "clock_ahead": -75.0,
}


def answers(server: FakeServer, *pilots: dict[str, Any], node: dict[str, Any] | None) -> None:
    server.answers["POST /queues/short/test"] = (200, {"pilot": 7})
    server.answers["GET /pilots/7"] = [(200, {**PILOT, **pilot}) for pilot in pilots]
    server.answers["GET /pilots/7/logs"] = (200, {"node": node})


def test_what_the_pilot_found_is_told_line_by_line(pilotage: Pilotage, server: FakeServer) -> None:
    answers(server, {}, node=NODE)
    done = pilotage("queues", "test", "short")
    assert done.exit_code == 0, done.output
    assert "pilot 7 called from n12, 42 s after it was sent" in done.stdout
    for line in (
        "cores       4 of 64 in the machine",
        "memory      all of 256000 MB in the machine",
        "disk        81.0 GB free",
        "containers  apptainer",
        "clock       75.0 s behind: wrong",
    ):
        assert line in done.stdout


def test_a_pilot_that_failed_says_why(pilotage: Pilotage, server: FakeServer) -> None:
    answers(server, {"state": "failed", "error": "not submitted: no such partition"}, node=None)
    done = pilotage("queues", "test", "short")
    assert done.exit_code == 1
    assert "no such partition" in done.stderr
    assert "pilotage explain pilot:7" in done.stderr


def test_a_pilot_that_waits_is_left_there(
    pilotage: Pilotage, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilotage.cli.places.queue_test.PERIOD", 0.6)
    answers(server, *[{"state": "submitted"}] * 9, node=None)
    done = pilotage("queues", "test", "short", "--timeout", "1")
    assert done.exit_code == 1
    assert "pilot 7 is submitted still" in done.stderr
    assert done.stderr.count("pilot 7 is submitted\n") == 1
