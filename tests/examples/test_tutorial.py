"""The tutorials, word for word: their files are written, their commands are run, their promises hold."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotage.client import Client, TaskFailed
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

PAGES = Path(__file__).parents[2] / "docs" / "tutorials"
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


def followed(page: str, place: Path, files: set[str], fault: str) -> list[tuple[str, int]]:
    """Write the files of a page and run its commands, in order; return these with their exit codes.

    The logs of what failed show the fault.
    """
    text = (PAGES / page).read_text()
    written = dict(FILE.findall(text))
    assert set(written) == files
    for name, content in written.items():
        (place / name).write_text(content)
    commands = COMMAND.findall(text)
    assert commands[:2] == ["pilotage init", "pilotage up"]
    ended = []
    for command in commands[2:]:
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False, timeout=300)
        ended.append((command, done.returncode))
        if command.endswith("--failed"):
            assert fault in done.stdout, f"{command}\n{done.stdout}{done.stderr}"
        if command.startswith("pilotage explain"):
            assert "is held: task" in done.stdout, done.stdout
    return ended


@pytest.mark.usefixtures("server")
def test_a_first_task_and_a_sweep_bring_their_results(place: Path) -> None:
    """One after the other, on one server."""
    text = (PAGES / "first-task.md").read_text()
    for command in ("submit task.yaml --watch", "explain 1", "fetch 1 --to results"):
        assert f"\n    pilotage {command}\n" in text
        subprocess.run(["pilotage", *shlex.split(command)], check=True, capture_output=True, timeout=300)
    assert (place / "results" / "manifest.csv").exists()
    ended = followed("sweep.md", place, {"sweep.yaml"}, "")
    assert [command for command, code in ended if code] == [], ended
    rows = [line.split("\t") for line in (place / "results" / "table.tsv").read_text().splitlines()]
    years = {(rate, room): int(count) for rate, room, count in rows}
    assert len(rows) == len(years) == 12
    assert years["2", "100"] < 10
    assert years["1.1", "10000"] > 100


@pytest.mark.usefixtures("server")
def test_forty_files_become_a_table_although_ten_were_broken(place: Path) -> None:
    ended = followed("failures.md", place, {"make_samples.py", "gc.yaml"}, "has no sequence")
    assert [command for command, code in ended if code] == ["pilotage wait gc"], ended
    assert ended.index(("pilotage wait gc", 1)) < ended.index(("pilotage retry gc", 0))
    table = (place / "results" / "table.tsv").read_text().splitlines()
    assert len(table) == 40
    assert all(re.fullmatch(r"sample-\d\d\t0\.\d{3}", line) for line in table)
    assert (place / "results" / "manifest.csv").exists()


@pytest.mark.usefixtures("server")
def test_a_chain_goes_on_after_its_middle_was_repaired(place: Path) -> None:
    ended = followed("chain.md", place, {"make_data.py", "analysis.yaml"}, "the reference is empty")
    assert [command for command, code in ended if code] == ["pilotage wait analysis"], ended
    assert ended.index(("pilotage wait analysis", 1)) < ended.index(("pilotage retry compare", 0))
    (report,) = (place / "results").rglob("report.txt")
    assert [line.split("\t") for line in report.read_text().splitlines()[1:]] == [
        [f"sample-{number}", f"{number}.0"] for number in range(1, 7)
    ]
    _waiting_ends_where_a_failure_holds_the_rest()


def _waiting_ends_where_a_failure_holds_the_rest() -> None:
    """On the same server, because starting another one takes longer."""
    usual = {"command": ["false"], "scouts": 0, "max_attempts": 1}
    tasks = [
        {"name": "one", **usual},
        {"name": "two", "after": ["one"], **usual},
        {"name": "three", "after": ["two"], **usual},
    ]
    with Client() as client:
        made = client.submit_workflow("held", tasks)
        one, two, three = client.wait([task["id"] for task in made["tasks"]], timeout=120)
        assert (one.state, two.is_blocked, three.is_blocked) == ("failed", True, True)
        with pytest.raises(TaskFailed, match=f"is held: before it, task {one.id} \\(one\\) failed"):
            three.check()
        assert [row["name"] for row in client.workflows(name="held")] == ["held"]
        assert "is held" in client.explain(f"workflow:{made['id']}")["lines"][-1]
        assert client.workflow(made["id"])["why"].keys() == {f"{two.id}", f"{three.id}"}
        assert client.explain_workflow(made["id"], width=80)["lines"]
