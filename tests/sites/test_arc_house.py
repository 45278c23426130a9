"""A server whose pilots go through a real ARC computing element, which is killed and started again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.acceptance.house import House, running
from tests.waiting import wait_for

from .arc import ArcServer

FEDERATION = """
name: grids
sites:
  - {{ name: home, nucleus: true }}
  - {{ name: grid }}
storages:
  - {{ name: home-disk, site: home, url: "file://{place}/home-disk", storage_min_free: 0 }}
  - {{ name: grid-disk, site: grid, url: "file://{place}/grid-disk", storage_min_free: 0 }}
queues:
  - name: grid-queue
    site: grid
    storage: grid-disk
    computing_element:
      kind: arc
      max_pilots: 2
      pilot_walltime: 3600
      containment: required
      options: {options}
      credentials: {credentials}
loops: {{ period: 0.5, heartbeat: 1, pilot_idle: 15 }}
"""

FILES = 8


def task(name: str) -> dict[str, object]:
    """A job for each file, of some seconds."""
    return {
        "name": name,
        "nucleus": "home",
        "command": ["sh", "-c", "sleep 2; sha256sum $(cat inputs.txt) > sums.txt"],
        "inputs": [{"storages": ["home-disk"], "glob": "data/*"}],
        "files_per_job": 1,
        "outputs": ["sums.txt"],
        "scouts": 0,
    }


@pytest.fixture
def place(open_place: Path) -> Path:
    """Storages, and the inputs of a task."""
    for name in ("home-disk/data", "grid-disk", "home"):
        (open_place / name).mkdir(parents=True)
    for number in range(FILES):
        (open_place / f"home-disk/data/{number}").write_text(f"{number}\n" * 1000)
    return open_place


@pytest.fixture
def house(place: Path, arc_server: ArcServer, free_port: int) -> Iterator[House]:
    """A server with one site of its own and one behind ARC."""
    options, credentials = (
        yaml.safe_dump(value, default_flow_style=True, width=10_000).strip()
        for value in (arc_server.options, [{"person": "operator", "options": arc_server.credential("bob")}])
    )
    federation = FEDERATION.format(place=place, options=options, credentials=credentials)
    try:
        with running(place, free_port, federation) as house:
            yield house
    finally:
        print(arc_server.last_words())


def states(house: House, number: int) -> dict[str, int]:
    found: dict[str, int] = house.call("GET", f"/tasks/{number}")["jobs"]
    return found


@pytest.mark.slow
def test_tasks_finish_while_arc_is_killed_and_started_again(
    house: House, arc_server: ArcServer, place: Path
) -> None:
    first = house.call("POST", "/tasks", {"tasks": [task("before")]})["tasks"][0]["id"]
    wait_for(lambda: bool(states(house, first).get("running")), "a job runs behind ARC")
    arc_server.kill()
    wait_for(lambda: states(house, first) == {"finished": FILES}, "its pilots live on")
    wait_for(lambda: not house.call("GET", "/pilots?state=running")["pilots"], "they are idle, and end")
    second = house.call("POST", "/tasks", {"tasks": [task("after")]})["tasks"][0]["id"]
    arc_server.start()
    wait_for(lambda: states(house, second) == {"finished": FILES}, "the second task's end")
    sums = [path for path in (place / "home-disk/tasks").rglob("sums.txt") if path.stat().st_size]
    assert len(sums) == 2 * FILES, "every output is delivered once"
    pilots = house.call("GET", "/pilots")["pilots"]
    assert {pilot["reference"].rpartition("/")[0] for pilot in pilots if pilot["reference"]} == {
        arc_server.url
    }
    names = [pilot["id"] for pilot in pilots]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_p9_private_pilots_run_their_owners_task_under_the_owners_certificate(
    house: House, arc_server: ArcServer
) -> None:
    asked = {**task("own"), "private_pilots": True}
    number = house.call("POST", "/tasks", {"tasks": [asked]})["tasks"][0]["id"]
    wait_for(lambda: states(house, number) == {"finished": FILES}, "the task's end")
    pilots = [pilot for pilot in house.call("GET", "/pilots")["pilots"] if pilot["matched"]]
    assert {(pilot["kind"], pilot["credential"]) for pilot in pilots} == {("private", "person operator")}
    for pilot in pilots:
        job = pilot["reference"].rpartition("/")[2]
        files = [path for path in (arc_server.place / "control").rglob("*") if path.is_file()]
        owned = [path for path in files if job in str(path).replace("/", "") or job in path.name]
        assert any(b"CN=bob" in path.read_bytes() for path in owned), owned
    lines = house.call("GET", f"/pilots/{pilots[0]['id']}/explain")["lines"]
    assert "  with the credential of person operator" in lines
