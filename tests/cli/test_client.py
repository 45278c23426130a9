"""What the server answers, or does not, as exit codes and one sentence on standard error."""

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pilotage.client._sync import connection

from .conftest import FakeServer, Pilotage

OUTPUT = {
    "name": "tasks/f/12/1/x",
    "file": "user.a:tasks/f/12/1/x",
    "size": 1,
    "checksum": "",
    "job": 1,
    "kind": "normal",
}


@pytest.mark.parametrize(
    ("answer", "code", "sentence"),
    [
        ((404, {"detail": "there is no task 5"}), 1, "there is no task 5"),
        ((403, {"detail": "this is for operators"}), 1, "this is for operators"),
        ((409, {"detail": "there is no federation yet"}), 1, "there is no federation yet"),
        (
            (401, {"detail": "a valid bearer token is needed"}),
            1,
            " does not know you: a valid bearer token is needed",
        ),
        ((422, {"detail": [{"field": "limit", "message": "is too large"}]}), 2, "limit: is too large"),
        ((400, {"detail": "cannot be read"}), 2, "cannot be read"),
        ((413, {"detail": "the body is too large"}), 2, "the body is too large"),
        ((500, {"detail": "internal"}), 1, "the server failed with 500 Internal Server Error: internal"),
        ((500, b"<html>"), 1, "the server failed with 500 Internal Server Error"),
        ((404, b"<html>"), 3, "is not Pilotage"),
        ((200, b"<html>"), 3, "is not Pilotage"),
        ((200, b'{"id": NaN}'), 3, "is not Pilotage"),
        ((200, b'{"id": 1e999}'), 3, "is not Pilotage"),
        ((200, b'{"id": "\\ud800"}'), 3, "is not Pilotage"),
        ((200, b"[" * 100_000), 3, "is not Pilotage"),
        ((200, b" " * (65 << 20)), 1, "the server's answer has more than 65536 KiB"),
        (
            (200, ["task"]),
            1,
            "the server's answer has a list, and not an object: the server at http://127.0.0.1",
        ),
        ((200, {"jobs": {"running": "x"}}), 1, "has text at jobs.running, and not a whole number"),
        ((302, b""), 3, "is not Pilotage"),
    ],
)
def test_what_the_server_answers_decides_the_exit_code(
    pilotage: Pilotage, server: FakeServer, answer: tuple[int, object], code: int, sentence: str
) -> None:
    server.answers["GET /tasks/5"] = answer
    result = pilotage("status", 5, "--json")
    assert (result.exit_code, result.stdout) == (code, "")
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_no_server_is_exit_code_3(pilotage: Pilotage) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        result = pilotage("queues", PILOTAGE_URL=url)
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.startswith(f"no answer from {url}: ")
    assert "start it with `pilotage up`, or set PILOTAGE_URL" in result.stderr


class Stuck(BaseHTTPRequestHandler):
    """A server that lives, and whose store is held."""

    go_on = threading.Event()

    def do_GET(self) -> None:
        if not self.path.endswith("/health/ready"):
            self.go_on.wait(30)
            return
        body = json.dumps({"status": "unavailable", "problems": ["the store is held by process 7"]}).encode()
        self.send_response(503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("words", [("status", 5), ("submit", "task.yaml")])
def test_a_server_that_does_not_answer_is_asked_why_and_no_command_waits_for_long(
    pilotage: Pilotage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[object, ...]
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 1.0)
    (tmp_path / "task.yaml").write_text("name: t\ncommand: [run]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Stuck, "go_on", threading.Event())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stuck)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    begun = time.monotonic()
    try:
        result = pilotage(*words, PILOTAGE_URL=f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        Stuck.go_on.set()
        server.shutdown()
        server.server_close()
    assert result.exit_code == 3
    assert "the server says: the store is held by process 7" in result.stderr
    assert time.monotonic() - begun < 20


def test_the_token_is_that_of_the_environment_or_of_the_home(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /queues"] = {"queues": []}
    pilotage("queues")
    (pilotage.home / "token").write_text("from-home\n")
    pilotage("queues")
    pilotage("queues", PILOTAGE_TOKEN="from-environment")
    assert server.tokens == ["", "Bearer from-home", "Bearer from-environment"]


def test_wrong_settings_are_bad_input_and_named(pilotage: Pilotage) -> None:
    result = pilotage("queues", PILOTAGE_URL="ftp://here")
    assert result.exit_code == 2
    assert (
        result.stderr
        == "PILOTAGE_URL: does not begin with http:// or https://; give a URL like http://127.0.0.1:8470\n"
    )


def test_authorities_that_cannot_be_read_are_named(pilotage: Pilotage, tmp_path: Path) -> None:
    missing = str(tmp_path / "ca.pem")
    result = pilotage("status", PILOTAGE_URL="https://localhost:9", SSL_CERT_FILE=missing)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"SSL_CERT_FILE: {missing!r}: ")


def test_a_token_that_no_header_can_hold_is_bad_input(pilotage: Pilotage) -> None:
    result = pilotage("queues", PILOTAGE_TOKEN="schlüssel")
    assert result.exit_code == 2
    assert result.stderr == "PILOTAGE_TOKEN: the token has a blank, or a character that no token has\n"
    (pilotage.home / "token").write_bytes("schlüssel".encode())
    told = pilotage("queues").stderr
    assert told == "the file token in the home: the token has a blank, or a character that no token has\n"


@pytest.mark.parametrize("around", ["{} ", "{}\n", " {}", "\t{}\r\n"])
def test_what_surrounds_a_token_is_not_sent(pilotage: Pilotage, server: FakeServer, around: str) -> None:
    server.answers["GET /queues"] = {"queues": []}
    assert pilotage("queues", PILOTAGE_TOKEN=around.format("s3cret")).exit_code == 0
    assert server.tokens == ["Bearer s3cret"]
    (pilotage.home / "token").write_text(around.format("other"))
    assert pilotage("queues", PILOTAGE_TOKEN=" \n").exit_code == 0
    assert server.tokens[1:] == ["Bearer other"]


def test_a_refused_token_is_read_again_from_its_file(pilotage: Pilotage, server: FakeServer) -> None:
    """Commands that run for long go on when the token's file is replaced, in whatever order that is done."""
    (pilotage.home / "token").write_text("old")
    seen: list[str] = []

    def queues() -> tuple[int, object]:
        seen.append(server.tokens[-1])
        if seen == ["Bearer old"]:
            (pilotage.home / "token").write_text("new\n")
        return (200, {"queues": []}) if seen[-1] == "Bearer new" else (401, {"detail": "gone"})

    server.answers["GET /queues"] = queues
    assert pilotage("queues").exit_code == 0
    assert seen == ["Bearer old", "Bearer new"]
    # A token of the environment has no file that could be renewed.
    refused = pilotage("queues", PILOTAGE_TOKEN="older")
    assert refused.exit_code == 1
    assert seen[2:] == ["Bearer older"]


@pytest.mark.parametrize(
    "command", ["status --watch", "transfers --watch", "fetch 12 --to {}", "logs job:1 --follow"]
)
def test_long_commands_outlive_their_token(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path, command: str
) -> None:
    """The first token is revoked before the second one is written: the command waits for it."""
    (pilotage.home / "token").write_text("old")
    revoked = threading.Event()
    calls: list[tuple[str, str]] = []

    def answer() -> tuple[int, object]:
        call, token = server.requests[-1][0], server.tokens[-1]
        calls.append((call, token))
        if token == "Bearer old" and revoked.is_set():
            return 401, {"detail": "no such token"}
        if token == "Bearer new" and "watch" in command:
            # How a test ends what goes on for ever.
            return 400, {"detail": "that is enough"}
        if not revoked.is_set():
            threading.Timer(0.5, (pilotage.home / "token").write_text, ("new",)).start()
        revoked.set()
        if "outputs" in call:
            return 200, {"files": [{**OUTPUT, "replicas": [{"storage": "s"}]}]}
        if "content" in call:
            return 200, b"x"
        runs = token == "Bearer old"
        log = {"stream": "stdout", "size": 1, "parts": [{"start": 0, "end": 1, "text": "x"}]}
        logs = {"runs": runs, "attempt": 1, "attempts": [1], "logs": [log]}
        return 200, {
            "jobs": [],
            "tasks": [],
            "transfers": [],
            "time": 0.0,
            "delivering": [],
            "counts": {},
            **logs,
        }

    server.fallback = answer
    told = pilotage(*command.format(tmp_path / "to").split())
    assert told.exit_code == (2 if "watch" in command else 0), told.stderr
    assert {token for _, token in calls} == {"Bearer old", "Bearer new"}
