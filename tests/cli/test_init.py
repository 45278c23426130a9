"""``pilotage init`` and ``pilotage federation add local``: a federation of this machine that works."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_for

from .conftest import Pilotage


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, beside an empty home."""
    monkeypatch.setenv("PILOTAGE_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def test_the_federation_is_sound_and_nothing_is_overwritten(pilotage: Pilotage, place: Path) -> None:
    done = pilotage("init")
    assert done.exit_code == 0, done.output
    assert "pilotage up" in done.stdout
    file = place / "home" / "federation.yaml"
    checked = pilotage("federation", "check", file)
    assert checked.exit_code == 0, checked.output
    before = file.read_text()
    again = pilotage("init")
    assert (again.exit_code, file.read_text()) == (2, before)
    assert "pilotage federation add" in again.stderr


def test_a_machine_is_added_to_the_file_of_the_home(pilotage: Pilotage, place: Path) -> None:
    assert pilotage("init").exit_code == 0
    added = pilotage("federation", "add", "local", "--site", "second", "--json")
    assert added.exit_code == 0, added.output
    assert json.loads(added.stdout)["file"] == str(place / "home" / "federation.yaml")
    twice = pilotage("federation", "add", "local", "--site", "second")
    assert (twice.exit_code, "give another name with --site" in twice.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("ssh",), "name the machine"),
        (("local", "box"), "takes no host"),
        (("ssh", "box", "--commands", "/opt/bin"), "--commands is for slurm"),
    ],
)
def test_what_a_kind_does_not_take_is_refused(
    pilotage: Pilotage, place: Path, arguments: tuple[str, ...], told: str
) -> None:
    refused = pilotage("federation", "add", *arguments)
    assert (refused.exit_code, told in refused.stderr) == (2, True), refused.stderr
    assert not (place / "home" / "federation.yaml").exists()


@pytest.fixture
def own_server(place: Path, free_port: int) -> Iterator[dict[str, str]]:
    """A server of that home, as it starts without a file; the environment of its clients."""
    url = f"http://127.0.0.1:{free_port}"
    environment = {**os.environ, "PILOTAGE_HOME": str(place / "home"), "PILOTAGE_URL": url}
    command = [sys.executable, "-m", "pilotage.cli"]
    subprocess.run([*command, "init"], env=environment, check=True, capture_output=True)
    with subprocess.Popen([*command, "up"], env=environment) as process:
        yield environment
        process.terminate()


@pytest.mark.slow
def test_the_next_two_commands_run_the_example(place: Path, own_server: dict[str, str]) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pilotage.cli", *arguments]
        return subprocess.run(command, env=own_server, capture_output=True, text=True, check=False)

    wait_for((place / "home" / "token").exists, "the server runs")
    tested = run("queues", "test", "local-cores")
    assert (tested.returncode, "in the machine" in tested.stdout) == (0, True), tested.stderr
    submitted = run("submit", "task.yaml", "--watch")
    assert submitted.returncode == 0, submitted.stderr
    assert run("fetch", "1", "--to", "results").returncode == 0
    words = sorted(file.read_text().split()[0] for file in Path("results").rglob("words.txt"))
    assert words == ["1", "2", "3"]
