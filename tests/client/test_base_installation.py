"""The base installation, without the packages of the server: an importer that refuses them."""

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.cli.conftest import FakeServer, server

__all__ = ["server"]

pytestmark = pytest.mark.slow

MODULES = {"psycopg": "psycopg", "prometheus-client": "prometheus_client", "zlib-ng": "zlib_ng"}
BLOCKED = """
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
import importlib.util
known = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in {names} else known(name, *more)
"""


def of_server() -> set[str]:
    """The modules of the extra ``server``."""
    found = map(Requirement, requires("pilotage") or ())
    names = [one.name for one in found if one.marker and "server" in str(one.marker)]
    return {MODULES.get(name, name.replace("-", "_")) for name in names} - {"requests"}


def run(code: str, home: Path, url: str = "http://127.0.0.1:1") -> subprocess.CompletedProcess[str]:
    blocked = BLOCKED.format(names=repr(of_server()))
    environment = {"PILOTAGE_HOME": str(home), "PILOTAGE_URL": url, "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", blocked + code]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=60, check=False, cwd=home
    )


def pilotage(words: list[str]) -> str:
    return f"sys.argv = {['pilotage', *words]!r}\nfrom pilotage.cli import main\nmain()"


def test_the_blocker_blocks(tmp_path: Path) -> None:
    assert {"sqlalchemy", "numpy", "fastapi", "pydantic"} <= of_server()
    assert "No module named 'pydantic'" in run("import pydantic", tmp_path).stderr


def test_the_client_and_help_need_no_package_of_the_server(tmp_path: Path) -> None:
    done = run("import pilotage; from pilotage.client import *; Client(); print('here')", tmp_path)
    assert (done.stdout, done.stderr) == ("here\n", "")
    assert run(pilotage(["--help"]), tmp_path).returncode == 0


def test_tasks_are_submitted_and_their_faults_have_lines(tmp_path: Path, server: FakeServer) -> None:
    (tmp_path / "rows.csv").write_text("k\n21\n31\n")
    (tmp_path / "task.yaml").write_text("name: t\nram: lots\nparameters: rows.csv\n")
    fault = {"field": "ram", "message": "is no number"}
    refused = {"tasks": [], "refused": [{"index": 0, "errors": [fault]}]}
    server.answers["POST /tasks"] = [
        (422, refused),
        (201, {"tasks": [{"id": 1, "name": "t"}], "refused": []}),
    ]
    submit = pilotage(["submit", "task.yaml", "--yes"])
    wrong = run(submit, tmp_path, server.url)
    assert (wrong.returncode, wrong.stderr.startswith("task.yaml:2: ram: is no number")) == (2, True), (
        wrong.stderr
    )
    assert run(submit, tmp_path, server.url).stdout == "1 t\n"
    assert server.requests[-1][1]["tasks"][0]["parameters"] == [{"k": "21"}, {"k": "31"}]


@pytest.mark.parametrize("words", [["up"], ["demo"], ["plan", "broker", "--world", "w.yaml"]], ids=" ".join)
def test_what_needs_the_server_names_the_command_that_installs_it(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "w.yaml").write_text("{}")
    done = run(pilotage(words), tmp_path)
    assert (done.returncode, "pip install 'pilotage[server]'" in done.stderr) == (1, True), done.stderr
    assert "Traceback" not in done.stderr
