"""What the server answers, or does not, as exit codes and one sentence on standard error."""

import socket
from pathlib import Path

import pytest

from .conftest import FakeServer, Pilotage


@pytest.mark.parametrize(
    ("answer", "code", "sentence"),
    [
        ((404, {"detail": "there is no task 5"}), 1, "there is no task 5"),
        ((403, {"detail": "this is for operators"}), 1, "this is for operators"),
        ((409, {"detail": "there is no federation yet"}), 1, "there is no federation yet"),
        ((401, {"detail": "a valid bearer token is needed"}), 1, "the server does not know you"),
        ((422, {"detail": [{"field": "limit", "message": "is too large"}]}), 2, "limit: is too large"),
        ((400, {"detail": "cannot be read"}), 2, "cannot be read"),
        ((413, {"detail": "the body is too large"}), 2, "the body is too large"),
        ((500, {"detail": "internal"}), 1, "the server failed with 500 Internal Server Error: internal"),
        ((502, b"<html>"), 1, "the server failed with 502 Bad Gateway"),
        ((404, b"<html>"), 3, "is not Pilotage"),
        ((200, b"<html>"), 3, "is not Pilotage"),
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
    assert result.stderr == "PILOTAGE_URL: give a URL like http://127.0.0.1:8470\n"


def test_authorities_that_cannot_be_read_are_named(pilotage: Pilotage, tmp_path: Path) -> None:
    missing = str(tmp_path / "ca.pem")
    result = pilotage("status", PILOTAGE_URL="https://localhost:9", SSL_CERT_FILE=missing)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"SSL_CERT_FILE: {missing!r}: ")


def test_a_token_that_no_header_can_hold_is_bad_input(pilotage: Pilotage) -> None:
    result = pilotage("queues", PILOTAGE_TOKEN="schlüssel")
    assert result.exit_code == 2
    assert result.stderr == (
        f"the token has a character that none has; set PILOTAGE_TOKEN or {pilotage.home / 'token'}\n"
    )
