"""The commands that show circuit breakers and lift them (P6, P8, P12, F2, F4)."""

from typing import Any

from .conftest import FakeServer, Pilotage, remark

BREAKER: dict[str, Any] = {
    "kind": "node",
    "what": "jobs at short/n1 for task 7",
    "state": "open",
    "since": 1_700_000_000.0,
    "until": 1_700_000_060.0,
    "reason": "5 jobs failed fast, one after the other; the last: no such file",
    "rule": "F2",
    "probe": "one job",
}


def test_circuit_breakers_are_shown_open_until_when_and_why(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /breakers"] = [
        (200, {"breakers": [BREAKER, {**BREAKER, "state": "half-open"}]}),
        (200, {"breakers": [], "set_aside": [remark("set aside by step clean")]}),
    ]
    words = " ".join(pilotage("breakers").stdout.split())
    why = "5 jobs failed fast, one after the other; the last: no such file"
    since = "2023-11-14 22:13:20 UTC"
    assert f"node jobs at short/n1 for task 7 open {since} 2023-11-14 22:14:20 UTC {why}" in words
    assert f"node jobs at short/n1 for task 7 half-open {since} one job probes next {why}" in words
    told = "No circuit breaker has tripped.\ntask:12: set aside by step clean\n"
    assert pilotage("breakers").stdout == told


def test_what_was_lifted_is_told(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["POST /breakers/lift"] = [(200, {"lifted": [BREAKER]}), (200, {"lifted": []})]
    assert pilotage("breakers", "lift", "n1").stdout == "lifted: jobs at short/n1 for task 7\n"
    told = pilotage("breakers", "lift", "a/b", "--kind", "storage").stdout
    assert told == "no circuit breaker of a/b has tripped\n"
    assert [body for *_, body in server.requests if body][-1] == {"name": "a/b", "kind": "storage"}


def test_queues_are_shown_with_their_circuit_breakers(pilotage: Pilotage, server: FakeServer) -> None:
    queue = {
        "name": "short",
        "site": "oslo",
        "status": "online",
        "cores": 1,
        "max_memory": 0,
        "max_walltime": 0,
        "jobs": {},
        "pilots": {},
        "breakers": [BREAKER],
    }
    server.answers["GET /queues"] = {"queues": [queue]}
    words = " ".join(pilotage("queues").stdout.split())
    assert "jobs at short/n1 for task 7: open, 2023-11-14 22:14:20 UTC: 5 jobs failed fast," in words
    assert "online 1" in words, "one node of a queue is not the queue"
    for state in ("open", "half-open"):
        queue["breakers"] = [BREAKER, {**BREAKER, "kind": "queue", "state": state}]
        assert f"online, breaker {state} 1" in " ".join(pilotage("queues").stdout.split())
