"""Tasks of TES on a real server with real pilots: what executors see, and what comes back."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from pilotage.server.api.edge.dependencies import TES_PREFIX
from tests.conftest import locked_port
from tests.waiting import wait_for

from .house import House, running

FEDERATION = """
name: tes
sites: [{{ name: north }}, {{ name: south }}]
storages:
  - {{ name: north-disk, site: north, url: "file://{place}/north", storage_min_free: 0 }}
  - name: south-disk
    site: south
    url: "file://{place}/south"
    storage_min_free: 0
    delivery_folders: {{ delivered: [] }}
  - {{ name: web, site: south, url: "{web}", storage_min_free: 0 }}
queues:
  - {{ name: north-queue, site: north, storage: north-disk, max_memory: 2000, max_walltime: 3600,
      computing_element: {{ kind: process, max_pilots: 1, options: {{ directory: "{place}/pilots" }} }} }}
links:
  - {{ source: south, destination: north, closeness: 1 }}
  - {{ source: north, destination: south, closeness: 1 }}
director: {{ period: 0.2 }}
loops: {{ period: 0.2, heartbeat: 0.3, pilot_idle: 20 }}
"""
ENDS = ("COMPLETE", "EXECUTOR_ERROR", "SYSTEM_ERROR", "CANCELED")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tes")


@pytest.fixture(scope="module")
def web(place: Path) -> Iterator[str]:
    """A web server that serves a folder, and its address."""
    (place / "web/data").mkdir(parents=True)
    (place / "web/data/a b.txt").write_text("from the web")
    handler = partial(SimpleHTTPRequestHandler, directory=str(place / "web"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def house(place: Path, web: str) -> Iterator[House]:
    """One running house for all, whose TES tasks run on the nodes."""
    (place / "south/reads/deep").mkdir(parents=True)
    (place / "south/reads/a b.txt").write_text("first\n")
    (place / "south/reads/deep/c.txt").write_text("third\n")
    environment = {"PILOTAGE_TES": "nodes"}
    federation = FEDERATION.format(place=place, web=web)
    with (
        locked_port() as port,
        running(place, port, federation, "north", "pilots", environment=environment) as house,
    ):
        house.call("GET", "/queues")
        yield house


@pytest.fixture
def tes(house: House) -> Iterator[httpx.Client]:
    """A client whose token is the password of a user, as some clients of TES send it."""
    token = (house.home / "token").read_text()
    with httpx.Client(base_url=f"{house.url}{TES_PREFIX}", auth=("me", token), timeout=60) as client:
        yield client


def ended(tes: httpx.Client, **task: Any) -> dict[str, Any]:
    """A task at its end, in its full view."""
    answer = tes.post("/tasks", json=task)
    assert answer.status_code == 200, answer.text
    path = f"/tasks/{answer.json()['id']}"
    wait_for(lambda: tes.get(path).json()["state"] in ENDS, f"the end of {path}")
    whole: dict[str, Any] = tes.get(path, params={"view": "FULL"}).json()
    return whole


def executor(*command: str, **fields: Any) -> dict[str, Any]:
    return {"image": "debian:12", "command": command, **fields}


def test_executors_run_in_turn_and_their_outputs_go_where_their_urls_say(
    tes: httpx.Client, place: Path
) -> None:
    south = f"file://{place}/south"
    task = ended(
        tes,
        name="Zähle: Wörter (1)",
        inputs=[
            {"url": f"{south}/reads/a b.txt", "path": "/data/in/first one.txt"},
            {"url": f"{south}/reads", "path": "/data/all", "type": "DIRECTORY"},
            {"content": "it's $HOME \\ `x`\n", "path": "/data/in/text"},
        ],
        volumes=["/shared"],
        outputs=[
            {"path": "/results/out.txt", "url": f"{south}/delivered/1/renamed.txt"},
            {"path": "/results/*.log", "path_prefix": "/results", "url": f"{south}/delivered/1/logs"},
            {"path": "/results/folder", "url": f"{south}/delivered/1/folder", "type": "DIRECTORY"},
        ],
        executors=[
            executor("sh", "-c", 'cat "$1" all/deep/c.txt "$WORD" > /shared/x', "sh", "in/first one.txt")
            | {"workdir": "/data", "env": {"WORD": "in/text"}},
            executor("cat", stdin="/shared/x", stdout="/results/out.txt"),
            executor("sh", "-c", "echo oops >&2; exit 7", ignore_error=True, stderr="/results/err.log"),
            executor("sh", "-c", "mkdir -p folder/deep; echo 1 > folder/deep/f; echo done; pwd")
            | {"workdir": "/results"},
        ],
    )
    assert task["state"] == "COMPLETE", task
    made = {
        str(file.relative_to(place / "south/delivered/1")): file
        for file in (place / "south/delivered/1").rglob("*")
    }
    files = {name: file.read_text() for name, file in made.items() if file.is_file()}
    text = "it's $HOME \\ `x`\n"
    assert files == {
        "renamed.txt": f"first\nthird\n{text}",
        "logs/err.log": "oops\n",
        "folder/deep/f": "1\n",
    }
    (log,) = task["logs"]
    assert [one["exit_code"] for one in log["logs"]] == [0, 0, 7, 0]
    assert [one["stdout"] for one in log["logs"]] == ["", f"first\nthird\n{text}", "", "done\n/results\n"]
    assert [one["stderr"] for one in log["logs"]] == ["", "", "oops\n", ""]
    assert all(one["start_time"] <= one["end_time"] for one in log["logs"])
    assert {one["path"]: (one["url"], one["size_bytes"]) for one in log["outputs"]} == {
        "/results/out.txt": (f"{south}/delivered/1/renamed.txt", str(len(files["renamed.txt"]))),
        "/results/err.log": (f"{south}/delivered/1/logs/err.log", "5"),
        "/results/folder/deep/f": (f"{south}/delivered/1/folder/deep/f", "2"),
    }
    assert "this server runs TES tasks without their images" in " ".join(log["system_logs"])
    assert not [folder for folder in ("/results", "/shared", "/data/in") if Path(folder).exists()]


def test_the_first_failure_ends_a_task_with_its_exit_code(tes: httpx.Client) -> None:
    task = ended(
        tes, executors=[executor("sh", "-c", "echo no >&2; exit 3"), executor("echo", "never")], name="bad"
    )
    assert task["state"] == "EXECUTOR_ERROR"
    (log,) = task["logs"]
    assert [(one["exit_code"], one["stderr"]) for one in log["logs"]] == [(3, "no\n")]


def test_a_program_that_is_not_there_is_an_error_of_its_executor(tes: httpx.Client) -> None:
    task = ended(tes, executors=[executor("no-such-program-here")])
    assert task["state"] == "EXECUTOR_ERROR"
    assert task["logs"][0]["logs"][0]["exit_code"] == 127


def test_an_output_that_is_missing_is_no_error_of_an_executor(tes: httpx.Client, place: Path) -> None:
    output = {"path": "/o/none.txt", "url": f"file://{place}/south/delivered/none.txt"}
    task = ended(tes, executors=[executor("true")], outputs=[output])
    assert task["state"] == "SYSTEM_ERROR"
    assert "none.txt" in " ".join(task["logs"][0]["system_logs"])


def test_a_running_task_is_cancelled(tes: httpx.Client) -> None:
    path = f"/tasks/{tes.post('/tasks', json={'executors': [executor('sleep', '600')]}).json()['id']}"
    wait_for(lambda: tes.get(path).json()["state"] == "RUNNING", "it runs")
    assert tes.post(f"{path}:cancel").json() == {}
    assert tes.get(path).json()["state"] == "CANCELED"


def test_what_a_task_made_is_the_input_of_the_next_also_after_it_was_made_again(
    tes: httpx.Client, place: Path
) -> None:
    url = f"file://{place}/south/delivered/2/number"
    for text in ("one", "two"):
        output = [{"path": "/o/number", "url": url}]
        made = ended(tes, executors=[executor("printf", text, stdout="/o/number")], outputs=output)
        assert made["state"] == "COMPLETE", made
        read = ended(
            tes, executors=[executor("cat", "/i/number")], inputs=[{"path": "/i/number", "url": url}]
        )
        assert read["logs"][0]["logs"][0]["stdout"] == text, read


def test_an_input_comes_from_a_web_server(tes: httpx.Client, web: str) -> None:
    inputs = [{"path": "/i/a", "url": f"{web}/data/a%20b.txt"}]
    task = ended(tes, executors=[executor("cat", "/i/a")], inputs=inputs)
    assert task["logs"][0]["logs"][0]["stdout"] == "from the web", task
