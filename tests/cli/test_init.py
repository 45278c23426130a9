"""``pilotage init`` and ``pilotage federation add local``: a federation of this machine that works."""

import json
import os
import re
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
    assert (again.exit_code, file.read_text()) == (0, before), again.output
    assert "kept as it is; pilotage federation add adds to it" in again.stdout
    assert "task.yaml: kept as it is" in again.stdout


def test_an_example_that_is_there_is_kept(pilotage: Pilotage, place: Path) -> None:
    """Also where only parts of it are there: a person may have changed them."""
    Path("task.yaml").write_text("name: mine\n")
    Path("pilotage-data/example").mkdir(parents=True)
    Path("pilotage-data/example/one.txt").write_text("mine\n")
    done = pilotage("init", "--json")
    folder = place / "work" / "pilotage-data" / "example"
    written = [place / "home" / "federation.yaml", folder / "two.txt", folder / "three.txt"]
    assert json.loads(done.stdout)["written"] == [str(path) for path in written]
    assert Path("task.yaml").read_text() == "name: mine\n"
    assert (folder / "one.txt").read_text() == "mine\n"


def test_a_second_folder_gets_an_example_for_the_federation_that_is_there(
    pilotage: Pilotage, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pilotage("init").exit_code == 0
    (place / "other").mkdir()
    monkeypatch.chdir(place / "other")
    done = pilotage("init", "--json")
    assert json.loads(done.stdout)["written"] == ["task.yaml"]
    (place / "home" / "federation.yaml").write_text(
        "name: remote\nsites: [{ name: far }]\nstorages: [{ name: disk, site: far, url: 'file:///far' }]\n"
        "queues: [{ name: slots, site: far, storage: disk, computing_element: { kind: slurm } }]\n"
    )
    assert "not written, for no queue of this machine" in pilotage("init").stdout


def test_b18_a_small_disk_gets_jobs(pilotage: Pilotage, place: Path) -> None:
    """A machine with 75 GB free takes jobs as it is described, which the check of the file says."""
    file = place / "home" / "federation.yaml"
    assert pilotage("init").exit_code == 0
    text = re.sub(r"storage_min_free: .*", "storage_min_free: 7.5", file.read_text())
    file.write_text(text.replace("site: local\n", "site: local\n    free: 75\n", 1))
    assert "jobs wait" not in pilotage("federation", "check", file).output


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


@pytest.mark.slow
def test_a_server_without_a_federation_names_init(place: Path, free_port: int) -> None:
    """``up`` at once, each refusal, and the doctor, as one fault."""
    url = f"http://127.0.0.1:{free_port}"
    environment = {**os.environ, "PILOTAGE_HOME": str(place / "home"), "PILOTAGE_URL": url}
    command = [sys.executable, "-m", "pilotage.cli"]

    def said(*words: str) -> str:
        done = subprocess.run(
            [*command, *words], env=environment, capture_output=True, text=True, check=False
        )
        return f"{done.returncode} {done.stdout}{done.stderr}"

    log = place / "up.log"
    with (
        log.open("w") as stream,
        subprocess.Popen([*command, "up"], env=environment, stderr=stream) as process,
    ):
        try:
            wait_for((place / "home" / "token").exists, "the server runs")
            wait_for(lambda: "nothing runs here" in log.read_text(), "its warning")
            first, *_ = log.read_text().splitlines()
            assert first == f"starting the server for {url}, with no federation ..."
            assert "`pilotage init` writes one" in log.read_text()
            assert "`pilotage init` writes one" in said("queues")
            examined = said("doctor")
            assert examined.startswith("1 fault: access: the store has no federation yet"), examined
            assert ": 1 fault, 0 warnings" in examined
        finally:
            process.terminate()


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
