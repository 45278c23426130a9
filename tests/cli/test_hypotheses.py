"""Deciding again with changes, and before submission, as people type and read it."""

import json
from pathlib import Path
from typing import Any

import pytest

from pilotage.federation.documents import write
from pilotage.flow.calls import preview, what_if
from pilotage.flow.calls.what_if import Changes
from pilotage.model.documents import to_document
from pilotage.model.work import TaskSpec
from tests.brokerage.worlds import federation, jobs, queue, task, world

from .conftest import FakeServer, Pilotage

HOUSE = federation([queue("SMALL", max_memory=2000), queue("LARGE.x", max_memory=12000)])
WORK = task(12, ram=16000)
WORLD = world(HOUSE, WORK, jobs=jobs(WORK, 2))
FOUND = to_document(what_if.decide(WORLD, Changes(task={"memory": 12000})))


@pytest.fixture
def world_file(tmp_path: Path) -> Path:
    """A world in which nothing fits."""
    path = tmp_path / "world.yaml"
    path.write_text(write(WORLD))
    return path


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    """A task that fits nowhere, and one that does."""
    path = tmp_path / "tasks.yaml"
    path.write_text("tasks:\n- name: huge\n  ram: 16000\n- name: small\n  ram: 1000\n  jobs: 3\n")
    return path


def test_what_is_and_what_would_be_are_shown_side_by_side(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["POST /tasks/12/what-if"] = FOUND
    result = pilotage("explain", 12, "--what-if", "memory=12000")
    assert result.exit_code == 0
    assert server.requests == [("POST /tasks/12/what-if", {"task": {"memory": 12000}, "queues": {}})]
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "with memory 12000 instead of 16000"
    assert lines[1] == "as it is with the change"
    assert "queues that fit 0 of 2 1 of 2" in lines
    assert "jobs placed 0 of 2 2 of 2" in lines
    assert "at nowhere LARGE.x 2" in lines
    assert "in the way B15 memory at 2, alone at 2 B15 memory at 1, alone at 1" in lines
    assert "opens 1 queue: LARGE.x" in lines
    assert any(
        line.startswith("task 12, jobs 1-2: 2 jobs placed, 0 left; 1 of 2 queues fit") for line in lines
    )


def test_a_job_is_asked_about_alone_and_json_has_all(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["POST /jobs/1/what-if"] = FOUND
    document = json.loads(pilotage("explain", "job:1", "--what-if", "memory=12000", "--json").stdout)
    assert {key: document[key] for key in FOUND} == FOUND
    assert document["explanations"]["before"][0]["obstacles"][0]["only"] == 2
    assert document["explanations"]["after"][0]["placed"] == {"LARGE.x": 2}


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (["ram=12000"], {"task": {"ram": 12000}, "queues": {}}),
        (["ram=1e3", "cores=4"], {"task": {"ram": 1000.0, "cores": 4}, "queues": {}}),
        (["sw_version=21.0"], {"task": {"sw_version": "21.0"}, "queues": {}}),
        (["nucleus="], {"task": {"nucleus": ""}, "queues": {}}),
        (["queues=[A, B]"], {"task": {"queues": ["A", "B"]}, "queues": {}}),
        (["architecture=x@y#a=b"], {"task": {"architecture": "x@y#a=b"}, "queues": {}}),
        (["nightlies=true"], {"task": {"nightlies": True}, "queues": {}}),
        (["A.status=online"], {"task": {}, "queues": {"A": {"status": "online"}}}),
        (
            ["A.B.cores=8", "A.B.max_disk_io=null"],
            {"task": {}, "queues": {"A.B": {"cores": 8, "max_disk_io": None}}},
        ),
        (["nonsense=1"], {"task": {"nonsense": 1}, "queues": {}}),
    ],
)
def test_changes_are_sent_as_values_of_their_fields(
    pilotage: Pilotage, server: FakeServer, words: list[str], changes: dict[str, Any]
) -> None:
    server.answers["POST /tasks/12/what-if"] = FOUND
    options = [part for word in words for part in ("--what-if", word)]
    assert pilotage("explain", 12, *options).exit_code == 0
    assert server.requests[0][1] == changes


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["ram"],
            "'ram' is not a change; give FIELD=VALUE, for example memory=12000 or QUEUE.max_memory=16000",
        ),
        (["=3"], "'=3' is not a change"),
        (["ram=1", "ram=2"], "ram is given twice; keep one"),
        (["Q.cores=1", "Q.cores=1"], "Q.cores is given twice; keep one"),
        (["cores="], "cores: is empty"),
        (["queues=[A"], "queues: is not YAML"),
    ],
)
def test_what_is_no_change_is_bad_input(
    pilotage: Pilotage, server: FakeServer, words: list[str], told: str
) -> None:
    result = pilotage("explain", 12, *[part for word in words for part in ("--what-if", word)])
    assert (result.exit_code, result.stdout, server.requests) == (2, "", [])
    assert result.stderr.startswith(told)


def test_what_the_server_refuses_is_bad_input(pilotage: Pilotage, server: FakeServer) -> None:
    fault = {"field": "rm", "message": "there is no such field; did you mean ram?"}
    server.answers["POST /tasks/12/what-if"] = (422, {"detail": [fault]})
    result = pilotage("explain", 12, "--what-if", "rm=1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "rm: there is no such field; did you mean ram?\n"


def test_a_task_without_jobs_is_said_to_have_none(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["POST /tasks/12/what-if"] = {**FOUND, "before": [], "after": [], "opened": []}
    lines = pilotage("explain", 12, "--what-if", "ram=1").stdout.splitlines()
    assert lines[1] == "It has no jobs that could be brokered."


def test_tasks_are_planned_by_the_server_before_they_are_submitted(
    pilotage: Pilotage, server: FakeServer, task_file: Path
) -> None:
    specs = [TaskSpec(name="huge", ram=16000), TaskSpec(name="small", ram=1000, jobs=3)]
    planned = to_document(preview.preview(WORLD, list(enumerate(specs)), None))
    server.answers["POST /plan/broker"] = {**planned, "refused": []}
    result = pilotage("plan", "broker", "--task", task_file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [task["name"] for task in server.requests[0][1]["tasks"]] == ["huge", "small"]
    lines = result.stdout.splitlines()
    assert lines[0] == "huge: no queue of 2 fits"
    assert "small: 3 jobs placed, 0 left; 2 of 2 queues fit" in lines
    document = json.loads(pilotage("plan", "broker", "--task", task_file, "--json").stdout)
    assert [task["explanations"][0]["jobs"] for task in document["tasks"]] == [1, 3]


def test_tasks_are_planned_from_a_saved_world_without_a_server(
    pilotage: Pilotage, server: FakeServer, world_file: Path, task_file: Path
) -> None:
    words = ("plan", "broker", "--world", world_file, "--task", task_file)
    result = pilotage(*words)
    assert (result.exit_code, result.stderr, server.requests) == (0, "", [])
    assert result.stdout.splitlines()[0] == "huge: no queue of 2 fits"
    told = pilotage(*words, "--json").stdout
    assert told == pilotage(*words, "--json").stdout
    document = json.loads(told)
    assert (document["time"], document["seed"], document["refused"]) == (WORLD.time, WORLD.seed, [])
    assert sum(document["tasks"][1]["choices"][0]["placed"].values()) == 3


def test_scouts_are_told_apart_from_the_jobs_that_follow(
    pilotage: Pilotage, world_file: Path, task_file: Path
) -> None:
    task_file.write_text("name: large\ncommand: [run]\njobs: 50\n")
    told = pilotage("plan", "broker", "--world", world_file, "--task", task_file).stdout
    assert "large (scout jobs): " in told
    assert "large (normal jobs): " in told


@pytest.mark.parametrize("local", [True, False])
def test_tasks_that_would_be_refused_are_told_with_their_lines(
    pilotage: Pilotage, server: FakeServer, world_file: Path, task_file: Path, local: bool
) -> None:
    task_file.write_text("tasks:\n- name: good\n- name: lost\n  nucleus: HOEM\n")
    fault = {"field": "nucleus", "message": "there is no site 'HOEM'; did you mean HOME?"}
    planned = to_document(preview.preview(WORLD, [(0, TaskSpec(name="good"))], None))
    server.answers["POST /plan/broker"] = {**planned, "refused": [{"index": 1, "errors": [fault]}]}
    where = ("--world", world_file) if local else ()
    result = pilotage("plan", "broker", "--task", task_file, *where)
    assert result.exit_code == 2
    assert result.stdout.startswith("good: 1 job placed")
    assert result.stderr == f"{task_file}:4: tasks[1].nucleus: {fault['message']}\n"


def test_tasks_that_cannot_be_read_ask_nobody(
    pilotage: Pilotage, server: FakeServer, task_file: Path
) -> None:
    task_file.write_text("nam: x\n")
    result = pilotage("plan", "broker", "--task", task_file)
    assert (result.exit_code, result.stdout, server.requests) == (2, "", [])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("broker",), "give a saved world with --world, made by pilotage world; or ask about tasks"),
        (("stage",), "give a saved world with --world, made by pilotage world\n"),
        (("stage", "--task", "x"), "--task goes with the step broker, not with stage"),
    ],
)
def test_a_plan_needs_a_world_or_tasks(pilotage: Pilotage, words: tuple[str, ...], told: str) -> None:
    result = pilotage("plan", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(told)
