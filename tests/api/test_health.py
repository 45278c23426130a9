"""A server says whether it lives and whether it can work, whatever others ask of it."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pilotage.federation.documents import checked
from pilotage.model.documents.serialization import to_json
from pilotage.model.documents.world import World
from pilotage.model.values.identity import Credential, Identity
from pilotage.server.api.administration import health
from pilotage.server.api.edge import guard
from pilotage.store import OUTAGE

from .conftest import copied
from .test_limits import Impatient, Server

BOB = Identity(name="bob", vo="belle")


@pytest.fixture(scope="module")
def server(template: Path) -> Iterator[Server]:
    for house in copied(template):
        running = Server(house)
        yield running
        running.close()


def _of(server: Server, identity: Identity, role: Any = "user") -> str:
    return server.house.store.tokens.create(Credential(role=role, identity=identity))


def test_a_server_that_works_is_live_and_ready(server: Server) -> None:
    for path in ("/health", "/health/live", "/health/ready"):
        status, text = server.ask("GET", path)
        assert (status, json.loads(text)["status"]) == (200, "ok"), path


def test_a_store_that_refuses_writes_or_hangs_is_named_and_the_server_lives(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "BELIEVED_FOR", 0.0)
    monkeypatch.setattr(health, "LIMIT", 0.2)

    def full(_: object) -> None:
        raise OSError("database or disk is full")

    store = type(server.house.store)
    with monkeypatch.context() as broken:
        broken.setattr(store, "try_to_write", full)
        status, text = server.ask("GET", "/health/ready")
        assert (status, json.loads(text)["status"]) == (503, "unavailable")
        assert "disk is full" in text
    go_on = threading.Event()
    with monkeypatch.context() as frozen:
        frozen.setattr(store, "try_to_write", lambda _: go_on.wait())
        begun = time.monotonic()
        status, text = server.ask("GET", "/health/ready")
        assert status == 503
        assert "has not taken a write" in text
        assert time.monotonic() - begun < 5
        assert server.ask("GET", "/health/live")[0] == 200
        threads = threading.active_count()
        server.ask("GET", "/health/ready")
        assert threading.active_count() <= threads, "one thread asks, however often"
        go_on.set()
    deadline = time.monotonic() + 10
    while server.ask("GET", "/health/ready")[0] != 200:
        assert time.monotonic() < deadline, "it is ready again"


def test_a_store_that_is_full_for_loops_is_not_ready_though_a_small_write_fits(server: Server) -> None:
    failing = server.house.runtime.set_aside.failing_loops
    failing["split"] = f"{OUTAGE}: No space left on device"
    failing["finish"] = "ValueError: a fault of ours"
    status, text = server.ask("GET", "/health/ready")
    assert (status, json.loads(text)["problems"]) == (503, [f"{OUTAGE}: No space left on device"])
    del failing["split"]
    assert server.ask("GET", "/health/ready")[0] == 200, "a fault of one loop is told, and no more"
    failing.clear()


def test_one_person_s_requests_leave_room_to_others_and_to_health(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Impatient, "limit", 1000)
    monkeypatch.setattr(guard, "MOST_WAITING", 30)
    alice, bob = server.token(), _of(server, BOB)
    go_on, own = threading.Event(), server.house.store.declared_federation

    def slow(_: object) -> Any:
        return go_on.wait() and own()

    monkeypatch.setattr(type(server.house.store), "declared_federation", slow)
    answers: list[int] = []
    hanging = [
        threading.Thread(
            target=lambda: answers.append(server.ask("GET", "/federation", None, alice)[0]), daemon=True
        )
        for _ in range(60)
    ]
    for thread in hanging:
        thread.start()
    try:
        for path in ("/health", "/health/ready"):
            begun = time.monotonic()
            assert server.ask("GET", path)[0] == 200
            assert time.monotonic() - begun < 5
        assert server.ask("GET", "/tasks", None, bob)[0] == 200, "another person is served"
    finally:
        go_on.set()
        for thread in hanging:
            thread.join()
    assert sorted(set(answers)) in ([200, 429], [429, 500], [200, 429, 500])
    assert answers.count(429) == 60 - 30 - guard.EACH_AT_ONCE, "what would wait beyond the bound is refused"


@pytest.mark.endurance
def test_a_world_that_cannot_be_read_is_told_and_the_next_is_sent_by_another_process(
    server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    operator = _of(server, BOB, "operator")
    server.house.pilot()
    body = json.dumps({"tasks": [{"name": "work"}]}).encode()
    assert server.ask("POST", "/tasks", body, server.token())[0] == 201
    with monkeypatch.context() as broken:
        broken.setattr(server.house.runtime, "seeds", lambda: "no number")
        assert server.ask("GET", "/world", None, operator)[0] == 500
    capfd.readouterr()
    status, text = server.ask("GET", "/world", None, operator)
    assert status == 200
    told = json.loads(text)
    whole = server.house.store.snapshots.whole(server.house.runtime.clock(), told["seed"])
    assert {**told, "time": 0} == {**json.loads(to_json(whole)), "time": 0}
    assert checked(World, told) == replace(whole, time=told["time"])
    assert [one.spec.name for one in whole.tasks] == ["work"]
    assert "Warning" not in capfd.readouterr().err


def test_a_report_of_too_many_attempts_is_refused(server: Server) -> None:
    number, _ = server.house.pilot()
    body = {"holding": [[id_, 1] for id_ in range(1, 400_001)], "reports": []}
    status, _ = server.ask("POST", "/pilot/report", json.dumps(body).encode(), server.token(number))
    assert status == 413
