"""Today's code and a made-up next release beside each other on one database, and jobs finish."""

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.next_release import write_next_release
from tests.waiting import wait_for

from .house import House

pytestmark = [pytest.mark.endurance, pytest.mark.acceptance]

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
def next_python(tmp_path: Path) -> Path:
    """The Python of an environment with a made-up next release, and today's packages."""
    source = write_next_release(tmp_path / "source")
    venv.create(tmp_path / "environment", with_pip=False)
    (packages,) = (tmp_path / "environment" / "lib").glob("python*/site-packages")
    # Packages that are added in this way add no others, so today's source is not among them.
    paths = (source, sysconfig.get_path("purelib"))
    (packages / "next.pth").write_text("".join(f"{path}\n" for path in paths))
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


def upgrade(python: Path, store: str, *options: str) -> str:
    """Run the next release's command; returns what it prints, or raises what it refuses."""
    done = subprocess.run(
        [str(python), "-m", "pilotage.cli", "store", "upgrade", *options],
        env=os.environ | {"PILOTAGE_STORE": store},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def test_servers_of_two_releases_work_beside_each_other(
    tmp_path: Path, next_python: Path, empty_postgresql_url: str, free_port: int
) -> None:
    from tests.conftest import locked_port

    url = empty_postgresql_url
    with locked_port() as other, server(tmp_path, "former", url, free_port) as old:
        before = submit(old, "before")
        assert "the tables had version 0200" in upgrade(next_python, url)
        with server(tmp_path, "next", url, other, next_python) as new:
            tasks = [submit(old, "to-the-former"), submit(new, "to-the-next")]
            for task in (before, *tasks):
                wait_for(lambda task=task: finished(new, task), f"task {task}")  # type: ignore[misc]
                wait_for(lambda task=task: finished(old, task), f"task {task}")  # type: ignore[misc]
            with pytest.raises(RuntimeError, match="servers of another version run"):
                upgrade(next_python, url, "--finish")
            log = (old.home / "all.log").read_text()
            assert "Traceback" not in log, log
            old.stop()
            last = submit(new, "after")
            assert "is finished" in upgrade(next_python, url, "--finish")
            wait_for(lambda: finished(new, last), "the last task")
