"""What a command does where its output goes nowhere, and where the system refuses a file."""

import errno
import subprocess
import sys

import pytest

from .conftest import FakeServer, Pilotage


@pytest.fixture
def shell(pilotage: Pilotage, server: FakeServer) -> list[str]:
    """A shell that runs ``$@`` with the streams that a test says, as a process of its own."""
    server.answers["GET /tasks"] = {"tasks": []}
    assert server.url
    environment = [f"{name}={value}" for name, value in pilotage.environment.items()]
    return ["env", *environment, "sh", "-c"]


def _run(shell: list[str], streams: str) -> subprocess.CompletedProcess[str]:
    words = [*shell, f'"$0" -m pilotage.cli status {streams}', sys.executable]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
def test_an_output_that_is_closed_is_no_fault(shell: list[str]) -> None:
    done = _run(shell, ">&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_an_output_that_is_full_is_told_in_a_sentence(shell: list[str]) -> None:
    done = _run(shell, ">/dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("No space left on device\n")
    assert "Traceback" not in done.stderr


def test_a_home_that_cannot_be_made_is_told_with_its_path(pilotage: Pilotage) -> None:
    # Nobody makes a directory there, root neither.
    result = pilotage("up", "--no-api", "--only", "stop", PILOTAGE_HOME="/proc/home")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, "/proc/home: No such file or directory")


def test_the_system_s_refusal_is_shown_whole_to_who_debugs(
    pilotage: Pilotage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "broken", "disk")

    monkeypatch.setattr("pilotage.client._sync.connection.ServerConnection.send", refuse)
    assert pilotage("status").stderr == "disk: broken\n"
    assert isinstance(pilotage("status", PILOTAGE_DEBUG="1").exception, OSError)
