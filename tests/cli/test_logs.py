"""Logs on the terminal."""

import json
from typing import Any

import pytest

from .conftest import FakeServer, Pilotage


def document(*logs: Any, runs: bool = False, attempt: int = 1, attempts: Any = (1,)) -> dict[str, Any]:
    return {"attempt": attempt, "attempts": list(attempts), "runs": runs, "logs": list(logs), "points": []}


def log(stream: str, size: int, *parts: tuple[int, int, str]) -> dict[str, Any]:
    shown = [{"start": start, "end": end, "text": text} for start, end, text in parts]
    return {"stream": stream, "time": 1.0, "size": size, "parts": shown}


def test_both_streams_are_shown_with_what_is_left_out_and_nothing_that_terminals_obey(
    pilotage: Pilotage, server: FakeServer
) -> None:
    server.answers["GET /jobs/3/logs"] = document(
        log("stderr", 4, (0, 4, "\x1b[2J")), log("stdout", 5000, (0, 6, "begin\n"), (4997, 5000, "end"))
    )
    result = pilotage("logs", "job:3", "--attempt", "1")
    assert result.exit_code == 0
    assert result.stdout == (
        "== stderr of job:3, attempt 1: 4 bytes ==\n"
        "\\x1b[2J\n"
        "== stdout of job:3, attempt 1: 5,000 bytes ==\n"
        "begin\n"
        "[4,991 bytes are not kept]\n"
        "end\n"
    )
    assert server.requests == [("GET /jobs/3/logs?attempt=1", None)]


def test_a_log_is_followed_to_its_end(
    pilotage: Pilotage, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilotage.cli.work.logs.FOLLOW_EVERY", 0.0)
    server.answers["GET /jobs/3/logs"] = [
        document(runs=True, attempt=2, attempts=()),
        document(log("stdout", 4, (0, 4, "one\n")), runs=True, attempt=2),
        document(log("stdout", 8, (4, 8, "two\n")), attempt=2),
    ]
    result = pilotage("logs", "job:3", "--follow")
    assert result.stdout == "== stdout of job:3, attempt 2: 4 bytes ==\none\ntwo\n"
    assert [call for call, _ in server.requests] == [
        "GET /jobs/3/logs",
        "GET /jobs/3/logs?attempt=2",
        "GET /jobs/3/logs?attempt=2&stdout_seen=4",
    ]


def test_a_log_that_is_not_there_is_told_as_such(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /jobs/3/logs"] = document(attempt=2, attempts=[1])
    result = pilotage("logs", "job:3", "--attempt", "2")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is something of attempt 1" in result.stderr
    server.answers["GET /jobs/3/logs"] = document(runs=True, attempts=[])
    assert "its pilot will send it" in pilotage("logs", "job:3").stderr


def test_a_log_as_json_is_one_document_of_its_end_and_ends_alike(
    pilotage: Pilotage, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilotage.cli.work.logs.FOLLOW_EVERY", 0.0)
    running, ended = document(runs=True), document(log("stdout", 4, (0, 4, "one\n")))
    server.answers["GET /jobs/3/logs"] = [running, ended]
    result = pilotage("logs", "job:3", "--follow", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, ended)
    server.answers["GET /jobs/3/logs"] = document()
    result = pilotage("logs", "job:3", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (1, document())


@pytest.mark.parametrize("subject", ["job:", "job:x", "pilot:-1"])
def test_only_jobs_and_pilots_have_logs(pilotage: Pilotage, subject: str) -> None:
    result = pilotage("logs", subject)
    assert result.exit_code == 2
    assert "job:345" in result.stderr


def test_a_pilot_has_no_attempts(pilotage: Pilotage) -> None:
    assert pilotage("logs", "pilot:3", "--attempt", "1").exit_code == 2
