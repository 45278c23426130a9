"""The code of the first release and today's work beside each other on one database, and jobs finish."""

import io
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_for

from .house import House

pytestmark = [pytest.mark.endurance, pytest.mark.acceptance]

FIRST_RELEASE = "ac47e283"
"""The commit of version 0.1.0; tags may be missing in a clone."""

FEDERATION = """
name: house
sites: [ {{ name: near, nucleus: true }} ]
storages: [ {{ name: disk, site: near, url: "file://{place}/disk" }} ]
brokerage: {{ storage_min_free: 0 }}
queues:
  - name: nodes
    site: near
    storage: disk
    computing_element: {{ kind: process, max_pilots: 3, options: {{ directory: "{place}/pilots" }} }}
loops: {{ period: 1 }}
"""


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """The Python of an environment with the first release, and today's packages."""
    root = Path(__file__).parents[2]
    known = ["git", "-C", str(root), "cat-file", "-e", f"{FIRST_RELEASE}^{{commit}}"]
    if subprocess.run(known, capture_output=True, check=False).returncode:
        pytest.skip(f"the history of this clone has no commit {FIRST_RELEASE}")
    command = ["git", "-C", str(root), "archive", FIRST_RELEASE, "src"]
    packed = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    venv.create(tmp_path / "environment", with_pip=False)
    (packages,) = (tmp_path / "environment" / "lib").glob("python*/site-packages")
    # Packages that are added in this way add no others, so today's source is not among them.
    paths = (tmp_path / "source" / "src", sysconfig.get_path("purelib"))
    (packages / "former.pth").write_text("".join(f"{path}\n" for path in paths))
    return tmp_path / "environment" / "bin" / "python"


@contextmanager
def server(place: Path, name: str, store: str, port: int, python: Path | None = None) -> Iterator[House]:
    """A server with a home of its own, by another Python if there is one."""
    (place / name).mkdir()
    (place / "disk").mkdir(exist_ok=True)
    file = place / "federation.yaml"
    file.write_text(FEDERATION.format(place=place))
    house = House(place / name, store, port, file, {"all": (str(file),)})
    with pytest.MonkeyPatch.context() as patch:
        if python:
            patch.setattr(sys, "executable", str(python))
        house.start("all")
    try:
        house.call("GET", "/queues")
        yield house
    finally:
        house.stop()
        print(house.last_words())


def submit(house: House, name: str) -> int:
    task = {"name": name, "command": ["sh", "-c", "echo done > out.txt"], "jobs": 20, "scouts": 0}
    answer = house.call("POST", "/tasks", {"tasks": [task | {"outputs": ["out.txt"], "nucleus": "near"}]})
    return int(answer["tasks"][0]["id"])


def finished(house: House, task: int) -> Any:
    found = house.call("GET", f"/tasks/{task}")
    assert found["state"] not in ("failed", "cancelled"), found
    return found["state"] == "finished" and found


def upgrade(store: str, *options: str) -> str:
    """Run the command; returns what it says, or raises what it refuses."""
    done = subprocess.run(
        [sys.executable, "-m", "pilotage.cli", "store", "upgrade", *options],
        env=os.environ | {"PILOTAGE_STORE": store},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def test_servers_of_the_first_release_go_on_beside_todays(
    tmp_path: Path, former: Path, empty_postgresql_url: str, free_port: int
) -> None:
    from tests.conftest import locked_port

    url = empty_postgresql_url
    with locked_port() as other, server(tmp_path, "former", url, free_port, former) as old:
        before = submit(old, "before")
        assert "were of version 0104" in upgrade(url)
        with server(tmp_path, "todays", url, other) as new:
            tasks = [submit(old, "to-the-former"), submit(new, "to-todays")]
            for task in (before, *tasks):
                wait_for(lambda task=task: finished(new, task), f"task {task}")  # type: ignore[misc]
                wait_for(lambda task=task: finished(old, task), f"task {task}")  # type: ignore[misc]
            with pytest.raises(RuntimeError, match="end them first"):
                upgrade(url, "--finish")
            log = (old.home / "all.log").read_text()
            assert "Traceback" not in log, log
            old.stop()
            last = submit(new, "after")
            assert "is finished" in upgrade(url, "--finish")
            wait_for(lambda: finished(new, last), "the last task")
