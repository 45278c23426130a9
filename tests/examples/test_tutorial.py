"""The tutorial, word for word: its files are written, its commands are run, and its promises hold."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_for

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "failures.md"
FILE = re.compile(r"as `([\w.]+)`[^`]*?\n\n```\w+\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^    (?=pilotage |python3 )(.+)$", re.MULTILINE)


@pytest.fixture
def place(tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, a home and an address of its own."""
    monkeypatch.setenv("PILOTAGE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PILOTAGE_URL", f"http://127.0.0.1:{free_port}")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(place: Path) -> Iterator[None]:
    """What the reader leaves running in another terminal."""
    subprocess.run(["pilotage", "init"], check=True, capture_output=True)
    with subprocess.Popen(["pilotage", "up"]) as process:
        wait_for((place / "home" / "token").exists, "the server runs")
        yield
        process.terminate()


@pytest.mark.usefixtures("server")
def test_forty_files_become_a_table_although_ten_were_broken(place: Path) -> None:
    text = PAGE.read_text()
    files = dict(FILE.findall(text))
    assert set(files) == {"make_samples.py", "gc.yaml"}
    for name, content in files.items():
        (place / name).write_text(content)
    commands = COMMAND.findall(text)
    assert commands[:2] == ["pilotage init", "pilotage up"]
    ended = []
    for command in commands[2:]:
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False, timeout=300)
        ended.append((command, done.returncode))
        if command.endswith("--failed"):
            assert "has no sequence" in done.stdout, f"{command}\n{done.stdout}{done.stderr}"
    failed = [command for command, code in ended if code]
    assert failed == ["pilotage wait gc"], ended
    assert ended.index(("pilotage wait gc", 1)) < ended.index(("pilotage retry gc", 0))
    table = (place / "results" / "table.tsv").read_text().splitlines()
    assert len(table) == 40
    assert all(re.fullmatch(r"sample-\d\d\t0\.\d{3}", line) for line in table)
    assert (place / "results" / "manifest.csv").exists()
