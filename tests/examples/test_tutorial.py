"""The tutorials, word for word: their files are written, their commands are run, their promises hold."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotage.client import Client, TaskFailed
from tests.conftest import locked_port
from tests.waiting import wait_for

from .pages import PAGES, commands, files, ran, run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, a home and an address of its own."""
    _enter(tmp_path, free_port, monkeypatch)
    return tmp_path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start what the reader leaves running in another terminal. It serves several tutorials in turn."""
    with locked_port() as port, pytest.MonkeyPatch.context() as environment:
        place = tmp_path_factory.mktemp("tutorials")
        _enter(place, port, environment)
        subprocess.run(["pilotage", "init"], check=True, capture_output=True)
        with subprocess.Popen(["pilotage", "up"]) as process:
            wait_for((place / "home" / "token").exists, "the server runs")
            yield place
            process.terminate()


@pytest.fixture
def folder(server: Path) -> Path:
    """The folder of that server, without results of other tutorials."""
    shutil.rmtree(server / "results", ignore_errors=True)
    return server


def _enter(place: Path, port: int, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("PILOTAGE_HOME", str(place / "home"))
    environment.setenv("PILOTAGE_URL", f"http://127.0.0.1:{port}")
    environment.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    environment.chdir(place)


def followed(page: str, place: Path, saved: set[str], fault: str) -> list[tuple[str, int]]:
    """Write the files of a page and run its commands, in order; return these with their exit codes.

    The logs of what failed show the fault.
    """
    text = (PAGES / page).read_text()
    written = files(text)
    assert set(written) == saved
    for name, content in written.items():
        (place / name).write_text(content)
    typed = commands(text)
    assert typed[:2] == ["pilotage init", "pilotage up"]
    ended = []
    for command in typed[2:]:
        done = run(command)
        ended.append((command, done.returncode))
        if command.endswith("--failed"):
            assert fault in done.stdout, f"{command}\n{done.stdout}{done.stderr}"
        if command.startswith("pilotage explain"):
            assert "is held: task" in done.stdout, done.stdout
    return ended


def test_a_first_task_and_a_sweep_bring_their_results(folder: Path) -> None:
    """First of all, because the page names the first task by its number."""
    text = (PAGES / "first-task.md").read_text()
    for command in ("submit task.yaml --watch", "explain 1", "fetch 1 --to results"):
        assert f"\n    pilotage {command}\n" in text
        subprocess.run(["pilotage", *shlex.split(command)], check=True, capture_output=True, timeout=300)
    assert (folder / "results" / "manifest.csv").exists()
    ended = followed("sweep.md", folder, {"sweep.yaml"}, "")
    assert [command for command, code in ended if code] == [], ended
    rows = [line.split("\t") for line in (folder / "results" / "table.tsv").read_text().splitlines()]
    years = {(rate, room): int(count) for rate, room, count in rows}
    assert len(rows) == len(years) == 12
    assert years["2", "100"] < 10
    assert years["1.1", "10000"] > 100


def test_forty_files_become_a_table_although_ten_were_broken(folder: Path) -> None:
    ended = followed("failures.md", folder, {"make_samples.py", "gc.yaml"}, "has no sequence")
    assert [command for command, code in ended if code] == ["pilotage wait gc"], ended
    assert ended.index(("pilotage wait gc", 1)) < ended.index(("pilotage retry gc", 0))
    table = (folder / "results" / "table.tsv").read_text().splitlines()
    assert len(table) == 40
    assert all(re.fullmatch(r"sample-\d\d\t0\.\d{3}", line) for line in table)
    assert (folder / "results" / "manifest.csv").exists()


def test_a_chain_goes_on_after_its_middle_was_repaired(folder: Path) -> None:
    ended = followed("chain.md", folder, {"make_data.py", "analysis.yaml"}, "the reference is empty")
    assert [command for command, code in ended if code] == ["pilotage wait analysis"], ended
    assert ended.index(("pilotage wait analysis", 1)) < ended.index(("pilotage retry compare", 0))
    (report,) = (folder / "results").rglob("report.txt")
    assert [line.split("\t") for line in report.read_text().splitlines()[1:]] == [
        [f"sample-{number}", f"{number}.0"] for number in range(1, 7)
    ]
    _waiting_ends_where_a_failure_holds_the_rest()


def _waiting_ends_where_a_failure_holds_the_rest() -> None:
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
        assert client.workflow("held")["why"].keys() == {f"{two.id}", f"{three.id}"}
        assert client.explain_workflow(made["id"], width=80)["lines"]


def test_two_sites_send_work_to_files_and_files_to_work(place: Path) -> None:
    """In a folder of the test instead of the page's, with pilots that come sooner."""
    text = (PAGES / "federation.md").read_text().replace("/tmp/two-sites", str(place))
    for name, content in files(text).items():
        (place / name).write_text(content + "director: { period: 2 }\n" * (name == "federation.yaml"))
    first, up, *typed = commands(text)
    assert up == "pilotage up federation.yaml"
    assert run(first).returncode == 0
    with subprocess.Popen(shlex.split(up)) as server:
        wait_for((place / "home" / "token").exists, "the server runs")
        try:
            shown = ran(typed)
        finally:
            server.terminate()
    assert "runner-up campus-queue" in shown["pilotage explain means"]
    assert re.search("lab-disk +campus-disk +_default-upload", shown["pilotage transfers"])
    assert len(list((place / "results").rglob("mean.txt"))) == 8
    assert "refused: memory 1 queue" in shown["pilotage plan broker --task sort.yaml"]
    assert all(f"{name}-download" in shown["pilotage shares"] for name in ("alice", "ben"))
    assert "share alice-download, priority 40" in shown["pilotage explain job:9"]


def test_a_chain_runs_from_a_notebook(folder: Path) -> None:
    """The cells of the page are those of the notebook among the examples."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(  # type: ignore[no-untyped-call]
        ROOT / "examples" / "client" / "chain.ipynb", as_version=4
    )
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    page = re.findall(r"```python\n(.*?)\n```", (PAGES / "notebook.md").read_text(), re.DOTALL)
    assert page == [cell.source for cell in cells]
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    shown = json.dumps([cell.outputs for cell in cells])
    assert "<table>" in shown
    assert "pi is about 3.1" in shown
    assert "0 finished local-cores" in shown
