"""The tutorials, word for word: their files are written, their commands are run, their promises hold."""

import json
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

from .pages import PAGES, commands, files, ran, run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


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


@pytest.mark.usefixtures("server")
def test_a_chain_runs_from_a_notebook(place: Path) -> None:
    """The cells of the page are those of the notebook among the examples."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(  # type: ignore[no-untyped-call]
        ROOT / "examples" / "client" / "chain.ipynb", as_version=4
    )
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    page = re.findall(r"```python\n(.*?)\n```", (PAGES / "notebook.md").read_text(), re.DOTALL)
    assert page == [cell.source for cell in cells]
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(place)}}).execute()
    shown = json.dumps([cell.outputs for cell in cells])
    assert "<table>" in shown
    assert "pi is about 3.1" in shown
    assert "0 finished local-cores" in shown
