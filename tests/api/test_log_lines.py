"""The server's log: one record a line, repetition counted, secrets never, whatever the door."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
import sqlalchemy
from starlette.testclient import TestClient

from pilotage import log_lines
from pilotage.log_lines import bound, note
from pilotage.model.values.identity import Credential
from pilotage.server.api import create_app
from pilotage.server.web import make_pages
from pilotage.store import Store
from tests.flow.house import ALICE, House

log = logging.getLogger("pilotage.test")


@pytest.fixture
def house(store: Store, tmp_path: Path) -> House:
    return House(store, tmp_path)


@pytest.fixture
def as_json() -> Iterator[None]:
    with log_lines.logged("json", "debug", access="full"):
        yield


def written(capfd: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capfd.readouterr().err.splitlines()]


def warning(text: str, *values: object) -> logging.LogRecord:
    return logging.LogRecord("pilotage", logging.WARNING, "", 0, text, values, None)


def test_a_line_of_json_carries_what_is_known_around_it(
    capfd: pytest.CaptureFixture[str], as_json: None
) -> None:
    with bound(loop="broker", request="abc"):
        note(person="ligo:alice")
        log.warning("no room\nfor %s", "b\x1b[31m", extra={"task": 12, "queue": "north"})
    try:
        raise ValueError("secret detail of http://alice:hunter2@host/path?token=hunter3&x=1")
    except ValueError:
        log.exception("it failed")
    first, second = written(capfd)
    assert first.pop("time")
    assert first == {
        "level": "warning",
        "logger": "pilotage.test",
        "message": "no room\nfor b\x1b[31m",
        "request": "abc",
        "person": "ligo:alice",
        "loop": "broker",
        "task": 12,
        "queue": "north",
    }
    assert "http://alice:***@host/path?token=***&x=1" in str(second["exception"])
    assert "hunter" not in str(second)


def test_a_text_loses_its_secrets_alone() -> None:
    token = "s" * 43
    told = log_lines.without_secrets(
        f"Authorization: Bearer {token}; a bearer token is needed, the basic one"
    )
    assert told == "Authorization: Bearer ***; a bearer token is needed, the basic one"
    signed = f"https://s3/x?X-Amz-Signature={token}&X-Amz-Security-Token={token}&authz=Bearer%20{token}&e=1"
    assert log_lines.without_secrets(signed) == (
        "https://s3/x?X-Amz-Signature=***&X-Amz-Security-Token=***&authz=***&e=1"
    )
    assert log_lines.without_secrets("postgresql://ada:p@ss@host/db") == "postgresql://ada:***@host/db"
    assert log_lines.without_secrets("it failed; exit_code=3") == "it failed; exit_code=3"


def test_text_is_one_line_and_a_traceback_is_indented(capfd: pytest.CaptureFixture[str]) -> None:
    with log_lines.logged("text", "info", access="off"):
        log.debug("too small")
        try:
            raise ValueError("one\n2026-01-01 forged")
        except ValueError:
            log.exception("it\nfailed", extra={"task": 3})
        log.warning("%d values", "no number")
    first, *others, last = capfd.readouterr().err.splitlines()
    assert first.endswith(" ERROR pilotage.test: it\\nfailed [task=3]")
    assert last.endswith(" WARNING pilotage.test: %d values")
    assert others
    assert all(line.startswith("  ") for line in others)


def test_repetition_is_counted_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    now = 0.0
    shown = log_lines.Repetition(lambda record: told.append(record.getMessage()), lambda: now)
    records = [
        logging.LogRecord("q", logging.WARNING, "", 0, "pilot %d is lost", (n,), None) for n in range(3305)
    ]
    assert sum(map(shown.filter, records)) == log_lines.MOST_ALIKE
    now = log_lines.WINDOW
    assert shown.filter(warning("something else"))
    assert told == ["pilot 3304 is lost (… 3,300 times more in the last minute)"]
    assert shown.filter(records[0])
    shown.tell_all()
    assert len(told) == 1


def test_a_summary_has_a_line_for_each_route_and_status(capfd: pytest.CaptureFixture[str]) -> None:
    def request(route: str, status: int, ms: float) -> None:
        fields = {"method": "GET", "route": route, "status": status, "ms": ms}
        logging.getLogger(log_lines.ACCESS).info("a request", extra={"access": fields})

    with log_lines.logged("json", "info", access="summary"):
        for ms in (1.5, 2.5, 90.0):
            request("/tasks", 200, ms)
        request("/tasks", 404, 4.0)
        log.warning("no request")
    other, *lines = written(capfd)
    assert other["message"] == "no request"
    assert [line.pop("message") for line in lines] == [
        "GET /tasks 200: 3; median 2.5 ms, worst 90.0 ms",
        "GET /tasks 404: 1; median 4.0 ms, worst 4.0 ms",
    ]
    assert [[line["status"], line["count"], line["median_ms"], line["worst_ms"]] for line in lines] == [
        [200, 3, 2.5, 90.0],
        [404, 1, 4.0, 4.0],
    ]


def test_a_summary_is_written_each_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "WINDOW", 0.05)
    messages: SimpleQueue[str] = SimpleQueue()
    summary = log_lines.RequestSummary(lambda record: messages.put(record.getMessage()))
    fields = {"method": "GET", "route": "/tasks", "status": 200, "ms": 1.0}
    for _ in range(2):  # the second minute begins with its first request
        record = logging.makeLogRecord({"name": log_lines.ACCESS, "access": fields})
        assert not summary.filter(record)
        assert messages.get(timeout=30) == "GET /tasks 200: 1; median 1.0 ms, worst 1.0 ms"


def test_what_a_counted_line_concerns_is_its_own_and_not_that_of_who_tells_it() -> None:
    told: list[logging.LogRecord] = []
    shown = log_lines.Repetition(told.append, lambda: 0.0)
    with bound(task=1):
        for _ in range(log_lines.MOST_ALIKE + 1):
            shown.filter(logging.LogRecord("a", logging.INFO, "", 0, "failed", (), None))
    with bound(loop="finish"):
        shown.tell_all()
        (record,) = told
        assert log_lines.fields_of(record) == {"task": 1}


def test_each_request_has_an_id_and_a_line_and_no_door_logs_a_secret(
    house: House, capfd: pytest.CaptureFixture[str], as_json: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = house.store
    token = store.tokens.create(Credential(role="user", identity=ALICE, expires=None))
    value, hook = "hunter2-payload", "https://hooks.example.org/T0/hunter3"
    bearer = {"Authorization": f"Bearer {token}"}
    receivers = {"notify": [{"url": hook}]}

    def fail(*values: Any) -> None:
        query = sqlalchemy.text("SELECT :value FROM nowhere")
        store.database.write(lambda connection: connection.execute(query, {"value": str(values)}))

    app = create_app(house.runtime, make_pages(house.runtime, ("http://testserver",)))
    with TestClient(app, follow_redirects=False) as client:
        asked = client.get(f"/api/v1/tasks/7?token={token}", headers=bearer | {"X-Request-ID": "from-proxy"})
        statuses = [
            client.post("/api/v1/secrets", json={"name": "mine", "value": value}, headers=bearer).status_code,
            client.post(
                "/api/v1/secrets", json={"name": "", "value": value, hook: 1}, headers=bearer
            ).status_code,
            client.put("/api/v1/notifications/settings", json=receivers, headers=bearer).status_code,
            client.post(
                "/sign-in", data={"token": token}, headers={"Origin": "http://testserver"}
            ).status_code,
            client.get(f"/open?code={token}").status_code,
            client.get(f"/nothing?{token}", headers={"Authorization": token}).status_code,
        ]
        # What nobody expected is logged too, with what the database was asked.
        monkeypatch.setattr(store.secrets, "put", fail)
        monkeypatch.setattr(store.notification_settings, "save", fail)
        statuses += [
            client.post("/api/v1/secrets", json={"name": "mine", "value": value}, headers=bearer).status_code,
            client.put("/api/v1/notifications/settings", json=receivers, headers=bearer).status_code,
        ]
    assert statuses == [201, 422, 200, 303, 403, 404, 500, 500]
    lines = written(capfd)
    access = [line for line in lines if line["logger"] == log_lines.ACCESS]
    assert [line["status"] for line in access] == [404, *statuses]
    assert asked.headers["X-Request-ID"] == access[0]["request"] == "from-proxy"
    wanted = {"method": "GET", "route": "/api/v1/tasks/{task}", "person": "ligo:alice"}
    assert wanted.items() <= access[0].items()
    faults = [line for line in lines if line["level"] == "error"]
    assert [line["request"] for line in faults] == [line["request"] for line in access[-2:]]
    assert all("nowhere" in str(line["exception"]) for line in faults)
    text = json.dumps(lines)
    assert not [secret for secret in (token, value, hook, "hunter") if secret in text]
