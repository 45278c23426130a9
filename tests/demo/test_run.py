"""The demonstration itself: it succeeds, tells what it did, leaves its results and nothing else."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pilotage.demo import standard_library
from pilotage.demo.run import run
from tests.waiting import PATIENCE, has_ended, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demonstration puts what it does not leave."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


@pytest.mark.endurance  # `make demo` is the same, and part of CI
def test_the_demonstration_succeeds_and_leaves_its_results(
    tmp_path: Path, temporary: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of the modules goes all the same ways; `make demo` takes them all."""
    some = standard_library.sources()[::4]
    monkeypatch.setattr(standard_library, "sources", lambda: some)
    before = _started()
    assert run(tmp_path / "results", keep=False, json_output=True, port=None) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["equal"] is True
    assert told["task"]["state"] == "finished"
    jobs = {queue["queue"]: queue["jobs"] for queue in told["queues"]}
    assert sum(jobs.values()) == sum(told["task"]["jobs"].values())
    assert (jobs["ember-small"], jobs["delta-multicore"]) == (0, 0)
    assert len([queue for queue, number in jobs.items() if number]) >= 2
    assert sum(queue["files_in"] for queue in told["queues"]) > 0
    assert sum(queue["files_out"] for queue in told["queues"]) > 0
    assert told["placement"][0].startswith("task 1, ")
    assert "ember-small: B15 memory, need 720 MB, have 512 MB" in told["refusals"]
    with (tmp_path / "results" / "statistics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["module"] for row in rows] == [name for name, _ in some]
    assert (tmp_path / "results" / "statistics.png").read_bytes().startswith(b"\x89PNG")
    assert list(temporary.iterdir()) == []
    assert [one for one in _started() if one not in before] == []


# Both signals have one handler.
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.endurance)])
def test_whoever_interrupts_it_finds_everything_stopped(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "pilotage.cli", "demo", "--directory", str(tmp_path / "results")]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    family = psutil.Process(process.pid)

    def pilots() -> list[psutil.Process]:
        return [
            one
            for one in family.children(recursive=True)
            if not has_ended(one) and "pilotage.agent" in one.cmdline()
        ]

    wait_for(lambda: pilots() or process.poll() is not None, "its pilots start")
    started = family.children(recursive=True) if process.poll() is None else []
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, output.decode()
    assert b"everything that was started is stopped" in output
    assert [one for one in started if not has_ended(one)] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.endurance
def test_a_server_that_does_not_start_is_told_with_its_reason(
    tmp_path: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        assert run(tmp_path / "results", keep=False, json_output=False, port=port) == 1
    told = capsys.readouterr().out
    assert "The demonstration failed" in told
    assert "in use" in told
    assert list(temporary.iterdir()) == []


def test_without_matplotlib_it_says_which_extra_draws_the_picture(
    tmp_path: Path, temporary: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with socket.socket() as taken:  # the demonstration says so before its server starts
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run(tmp_path / "results", keep=False, json_output=False, port=taken.getsockname()[1]) == 1
    assert "pip install 'pilotage[pictures]'" in capsys.readouterr().out


def _is_agent(process: psutil.Process) -> bool:
    try:
        return not has_ended(process) and "pilotage.agent" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def _started() -> list[psutil.Process]:
    """Processes below this one, without those of PostgreSQL and of Python itself; paths may have any name."""
    found = [process for process in psutil.Process().children(recursive=True) if not has_ended(process)]
    return [one for one in found if one.name() != "postgres" and "resource_tracker" not in str(one.cmdline())]
