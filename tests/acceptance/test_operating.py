"""A real server with two sites, as its operator sees it: the log, and the verbs that show and steer."""

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import Pilotage
from tests.conftest import locked_port
from tests.waiting import wait_for

from .house import House, running

FEDERATION = """
name: two
sites: [{{ name: north, nucleus: true }}, {{ name: south }}]
storages:
  - {{ name: north-disk, site: north, url: "file://{place}/north", free: 100, storage_min_free: 0 }}
  - {{ name: south-disk, site: south, url: "file://{place}/south", free: 100, storage_min_free: 0 }}
queues:
  - {{ name: north-queue, site: north, storage: north-disk, max_memory: 2000, max_walltime: 3600,
      computing_element: {{ kind: process, max_pilots: 1, options: {{ directory: "{place}/pilots" }} }} }}
  - {{ name: south-queue, site: south, storage: south-disk, max_memory: 2000, max_walltime: 3600,
      computing_element: {{ kind: process, max_pilots: 1, options: {{ directory: "{place}/pilots" }} }} }}
links:
  - {{ source: north, destination: south, closeness: 2 }}
  - {{ source: south, destination: north, closeness: 2 }}
director: {{ period: 0.2 }}
loops: {{ period: 0.2, heartbeat: 0.3, pilot_idle: 2 }}
"""
LOG = {"PILOTAGE_LOG_FORMAT": "json", "PILOTAGE_LOG_LEVEL": "debug", "PILOTAGE_ACCESS_LOG": "full"}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One running house for all."""
    place = tmp_path_factory.mktemp("operating")
    federation = FEDERATION.format(place=place)
    with (
        locked_port() as port,
        running(place, port, federation, "north", "south", "pilots", environment=LOG) as house,
    ):
        yield house


def submit(house: House, **asked: object) -> int:
    task = {"name": "work", "command": ["true"], "walltime": 60, "ram": 100, "scouts": 0, **asked}
    return int(house.call("POST", "/tasks", {"tasks": [task]})["tasks"][0]["id"])


def ended(house: House, task: int) -> str:
    def state() -> str:
        found = str(house.call("GET", f"/tasks/{task}")["state"])
        return found if found in ("finished", "failed") else ""

    return wait_for(state, f"the end of task {task}")


def lines(house: House) -> list[dict[str, Any]]:
    # The server may be writing the last line now.
    whole, _, _ = (house.home / "all.log").read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


@pytest.mark.endurance
def test_each_line_about_a_task_names_it_and_its_job(house: House) -> None:
    secret = "hunter2-of-the-payload"
    house.call("POST", "/secrets", {"name": "mine", "value": secret})
    task = submit(house, command=["false"], secrets=["mine"], max_attempts=1, jobs=2)
    assert ended(house, task) == "failed"
    jobs = {job["id"] for job in house.call("GET", f"/tasks/{task}/jobs")["jobs"]}
    # A server writes the line of a request after its answer.
    path = "/api/v1/tasks/{task}/jobs"
    wait_for(lambda: any(line.get("route") == path for line in lines(house)), "the request is in the log")
    found = lines(house)
    changes = [line for line in found if line["logger"] == "pilotage.transitions"]
    for job in jobs:
        about = [line for line in changes if f"job {job}: " in line["message"]]
        assert {line["task"] for line in about} == {task}
        assert {line["job"] for line in about} == {job}
        assert [line["level"] for line in about if "→ failed" in line["message"]] == ["info"]
    taken = [line for line in found if "taken by pilot" in line["message"] and line["job"] in jobs]
    assert {line["task"] for line in taken} == {task}
    assert all(line["pilot"] and line["queue"].endswith("-queue") for line in taken)
    asked_by_path = [line for line in found if line.get("route") == path]
    assert [(line["task"], line["person"]) for line in asked_by_path] == [(task, "operator")]
    assert changes[-1]["task"] == task
    assert changes[-1]["loop"] == "finish"
    text, token = (house.home / "all.log").read_text(), (house.home / "token").read_text()
    assert not [one for one in (secret, token) if one in text]


@pytest.fixture
def pilotage(house: House, monkeypatch: pytest.MonkeyPatch) -> Pilotage:
    """The command line of the operator, on a terminal of 80 columns as far as it can tell."""
    for name in ("STORE", "TOKEN"):
        monkeypatch.delenv(f"PILOTAGE_{name}", raising=False)
    monkeypatch.setattr("pilotage.cli.places.restricting.PERIOD", 0.1)
    monkeypatch.setattr("pilotage.cli.data.storage_moving.PERIOD", 0.2)
    wait_for((house.home / "token").exists, "the operator's token")
    house.call("GET", "/health/ready")
    return Pilotage(house.home, house.url)


def fits(text: str) -> bool:
    return all(len(line) <= 80 for line in text.splitlines())


def said(pilotage: Pilotage, *words: object, code: int = 0) -> str:
    """What a command prints, on both streams; it ends with this exit code."""
    done = pilotage(*words)
    text = done.stdout + done.stderr
    assert done.exit_code == code, (words, text)
    return text


def test_a_drain_tells_when_it_is_empty_and_open_what_else_shuts(house: House, pilotage: Pilotage) -> None:
    said(pilotage, "queues", "drain", "north-queue", "--because", "so that it runs in the south")
    task = submit(house, command=["sleep", "3"], jobs=1)
    wait_for(lambda: house.call("GET", f"/tasks/{task}")["jobs"].get("running"), "it runs")
    told = said(pilotage, "queues", "drain", "south-queue", "--because", "new disks", "--watch")
    assert "still there: 1 running job" in told
    assert "queue south-queue is draining; nothing is left there\n" in told
    said(pilotage, "sites", "drain", "south", "--because", "power cut", "--until", "2h")
    assert "drained by operator:operator until" in said(pilotage, "sites")
    told = said(pilotage, "queues", "open", "south-queue")
    assert told.startswith("queue south-queue is not open yet: site south is drained by operator:operator")
    assert json.loads(pilotage("sites", "open", "south", "--json").stdout) == {"opened": True, "still": ""}
    assert (
        said(pilotage, "queues", "open", "south-queue") == "queue south-queue is open: it was open before\n"
    )
    assert said(pilotage, "queues", "open", "north-queue") == "queue north-queue is open\n"
    assert ended(house, task) == "finished"
    known = house.call("GET", "/federation/history")["versions"][0]["version"]
    assert said(pilotage, "federation", "rollback", 1).startswith(f"nothing changed: version {known} ")
    assert "there is no queue 'nowhere'" in said(
        *(pilotage, "queues", "drain", "nowhere", "--because", "x"), code=1
    )


@pytest.mark.endurance
def test_stuck_names_what_waits_too_long_with_the_command(house: House, pilotage: Pilotage) -> None:
    assert said(pilotage, "stuck") == "Nothing is stuck.\n"
    task = submit(house, ram=1_000_000)
    wait_for(lambda: house.call("GET", f"/tasks/{task}")["jobs"].get("pending"), "no queue takes it")
    what, why, do = said(pilotage, "stuck").splitlines()
    assert what == f"1 task waits until somebody acts: task:{task}"
    assert why.removeprefix("    why: ") in said(pilotage, "status", task)
    assert do == f"    do:  pilotage explain task:{task}"
    with sqlite3.connect(house.home.parent / "store.db", timeout=60) as store:
        store.execute("UPDATE jobs SET since = since - 90000 WHERE task = ?", (task,))
    told = said(pilotage, "stuck")
    job = house.call("GET", f"/tasks/{task}/jobs")["jobs"][0]["id"]
    first, why, do = told.splitlines()
    assert first.startswith("1 job pending in share default, expected within ")
    assert first.endswith(f"; the oldest job:{job} for 25 h")
    assert "memory" in why
    assert do == f"    do:  pilotage explain job:{job}"
    (found,) = json.loads(pilotage("stuck", "--json").stdout)["stuck"]
    assert (found["kind"], found["state"], found["remark"]["subject"]) == ("job", "pending", f"job:{job}")
    token = house.call("POST", "/tokens", {"role": "user", "name": "una"})["token"]
    assert pilotage("stuck", PILOTAGE_TOKEN=token).exit_code == 1
    said(pilotage, "cancel", task)


def test_a_person_is_closed_with_all_that_is_theirs(house: House, pilotage: Pilotage) -> None:
    token = house.call("POST", "/tokens", {"role": "user", "name": "ada"})["token"]
    file = house.home / "task.yaml"
    file.write_text("{name: hers, command: [sleep, '60'], ram: 1000000, walltime: 60, scouts: 0}")
    assert pilotage("submit", file, "--yes", PILOTAGE_TOKEN=token).exit_code == 0
    close = ("people", "close", "ada", "--because", "left")
    told = said(pilotage, *close, "--dry-run")
    assert told.startswith("ada: would end: 1 token, 1 task")
    assert fits(told)
    assert pilotage("status", PILOTAGE_TOKEN=token).exit_code == 0, "a dry run ends nothing"
    refused = said(pilotage, *close, code=2)
    assert "--yes" in refused, "without a terminal nobody can be asked"
    done = json.loads(pilotage(*close, "--yes", "--json").stdout)
    assert (done["name"], done["tokens"], len(done["tasks"]), done["left"]) == ("ada", 1, 1, 0)
    # A server believes a token that it has just looked up.
    wait_for(lambda: pilotage("status", PILOTAGE_TOKEN=token).exit_code, "the token is refused")
    assert "bearer token" in pilotage("status", PILOTAGE_TOKEN=token).stderr
    assert house.call("GET", f"/tasks/{done['tasks'][0]}")["state"] == "cancelled"
    again = said(pilotage, *close, "--yes", code=1)
    assert "has no token, live task" in again
    assert "the name is empty" in said(pilotage, "people", "close", " ", "--because", "x", code=2)


def test_a_storage_moves_with_its_files_and_says_what_it_does_not_know(
    house: House, pilotage: Pilotage
) -> None:
    place = house.home.parent
    (place / "south" / "unknown.txt").write_text("nobody told Pilotage")
    (place / "south" / "known.txt").write_text("known")
    said(pilotage, "files", "register", "--match", "known.txt", "--storage", "south-disk")
    move = ("storages", "move", "south-disk", "north-disk")
    refused = said(pilotage, *move, code=1)
    assert "still takes new files: pilotage storages drain south-disk" in refused
    assert "there is no storage 'nowhere'" in said(pilotage, *move[:3], "nowhere", code=1)
    said(pilotage, "storages", "drain", "south-disk", "--because", "the disks go")
    assert "files that the catalogue does not know stay behind" in said(pilotage, *move, "--dry-run")
    done = pilotage(*move, "--watch", "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["left"], found["files"]) == (0, 0, [])
    told = said(pilotage, *move)
    assert "nothing is left: take south-disk out of the federation's file" in told
    assert fits(told)
    assert "known.txt" in {path.name for path in (place / "north").rglob("*")}
    assert not [*(place / "north").rglob("unknown.txt")]
    said(pilotage, "storages", "open", "south-disk")
