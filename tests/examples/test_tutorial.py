"""The tutorials, word for word: their files are written, their commands are run, their promises hold."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pilotage.client import Client, TaskFailed
from tests.conftest import locked_port
from tests.waiting import wait_for

from .pages import PAGES, ROOT, archive, commands, files, ran, run, shell_lines

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, a home and an address of its own."""
    _enter(tmp_path, free_port, monkeypatch)
    return tmp_path


NOT_TYPED = {
    "python3 -m venv venv && . venv/bin/activate": "this environment has it installed",
    ". venv/bin/activate": "likewise",
    "pip install '.[server]'": "this environment has it installed",
    "pilotage demo --keep": "tests/demo runs it",
    "make check    # format, lint, types, import rules": "it would run this test",
    "make test     # the tests, on SQLite, and on PostgreSQL where it differs": "it would run this test",
}
"""Lines of the pages that this test does not type, and why. It types all others as they stand."""

APART = {
    "notebook.md": "nbclient runs its cells, below",
    "federation.md": "its folder is /tmp, for which the test below has one of its own",
    "slurm.md": "its host is another; tests/sites/test_laptop.py runs it",
}
"""Tutorials with a test of their own, and why."""


@dataclass
class Reader:
    """Who follows one page after the other in one folder, and leaves the server running elsewhere."""

    place: Path
    servers: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def follow(self, page: Path, fault: str = "") -> list[str]:
        """Save the files of a page and type its lines, in order; return the lines that failed.

        The logs of what failed show the fault.
        """
        text, failed = page.read_text(), []
        for name, content in files(text).items():
            (self.place / name).write_text(content)
        for line in shell_lines(text):
            if line in NOT_TYPED:
                continue
            if line.partition("#")[0].strip() == "pilotage up":
                self.start()
                continue
            done = run(line)
            print(f"$ {line}\n{done.stdout}{done.stderr}")
            failed += [line] if done.returncode else []
            if line.endswith("--failed"):
                assert fault in done.stdout
            if line == "pilotage explain analysis":
                assert "is held: task" in done.stdout
        return failed

    def start(self) -> None:
        """Start a server in another terminal; where one runs already, that one stays."""
        server = subprocess.Popen(["pilotage", "up"])
        self.servers.append(server)
        token = self.place.parent / "home" / "token"
        wait_for(lambda: server.poll() is not None or token.exists(), "the server runs")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader in a fresh clone."""
    with locked_port() as port, pytest.MonkeyPatch.context() as environment:
        place = tmp_path_factory.mktemp("tutorials") / "clone"
        place.mkdir()
        archive(place)
        _enter(place, port, environment)
        environment.setenv("PILOTAGE_HOME", str(place.parent / "home"))
        reader = Reader(place)
        yield reader
        for server in reader.servers:
            server.terminate()
            server.wait(60)


def _enter(place: Path, port: int, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("PILOTAGE_HOME", str(place / "home"))
    environment.setenv("PILOTAGE_URL", f"http://127.0.0.1:{port}")
    environment.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    environment.chdir(place)


def test_a_reader_follows_the_readme_and_the_tutorials_in_one_folder(reader: Reader) -> None:
    """In the order of the index, each line as it stands. Two waits fail, as their pages say."""
    index = (ROOT / "docs" / "README.md").read_text()
    names = re.findall(r"^- .*\(tutorials/(.*?)\)", index, re.MULTILINE)
    pages = [ROOT / "README.md", *(PAGES / name for name in names if name not in APART)]
    faults = {"failures.md": "has no sequence", "chain.md": "the reference is empty"}
    failed = {page.name: reader.follow(page, faults.get(page.name, "")) for page in pages}
    assert failed == {
        "README.md": [],
        "first-task.md": [],
        "failures.md": ["pilotage wait gc"],
        "sweep.md": [],
        "chain.md": ["pilotage wait analysis"],
    }
    clone = reader.place
    assert (clone / "results" / "manifest.csv").exists()
    rows = [line.split("\t") for line in (clone / "sweep" / "table.tsv").read_text().splitlines()]
    years = {(rate, room): int(count) for rate, room, count in rows}
    assert len(rows) == len(years) == 12
    assert years["2", "100"] < 10
    assert years["1.1", "10000"] > 100
    table = (clone / "gc" / "table.tsv").read_text().splitlines()
    assert len(table) == 40
    assert all(re.fullmatch(r"sample-\d\d\t0\.\d{3}", line) for line in table)
    (report,) = (clone / "report").rglob("report.txt")
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
        held = {one["subject"] for one in client.workflow("held")["remarks"]}
        assert held >= {f"task:{two.id}", f"task:{three.id}"}
        assert client.explain_workflow(made["id"], width=80)["lines"]


@pytest.mark.endurance
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
    assert "refused: memory (1 queue)" in shown["pilotage plan broker --task sort.yaml"]
    assert all(f"{name}-download" in shown["pilotage shares"] for name in ("alice", "ben"))
    assert "share alice-download, priority 40" in shown["pilotage explain job:9"]


@pytest.mark.endurance
def test_a_chain_runs_from_a_notebook_twice(reader: Reader) -> None:
    """The cells of the page are those of the notebook among the examples."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(  # type: ignore[no-untyped-call]
        ROOT / "examples" / "client" / "chain.ipynb", as_version=4
    )
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    page = re.findall(r"```python\n(.*?)\n```", (PAGES / "notebook.md").read_text(), re.DOTALL)
    assert page == [cell.source for cell in cells]
    if not (reader.place / "federation.yaml").exists():
        assert run("pilotage init").returncode == 0
    reader.start()
    for _ in range(2):
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(reader.place)}}).execute()
    shown = json.dumps([cell.outputs for cell in cells])
    assert "<table>" in shown
    assert "pi is about 3.1" in shown
    assert "0 finished local-cores" in shown
