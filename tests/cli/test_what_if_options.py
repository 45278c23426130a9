"""Deciding again with changes, and before submission, as people type and read it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pilotage.explain.plans import PlannedTask
from pilotage.federation.documents import write
from pilotage.flow.calls.work import preview
from pilotage.model.documents.serialization import to_document
from pilotage.model.records.advertisements import Advertisement
from pilotage.model.records.work import TaskSpec
from pilotage.testing import federation, jobs, queue, task, world

from .conftest import FakeServer, Pilotage

HOUSE = federation([queue("SMALL", max_memory=2000), queue("LARGE.x", max_memory=12000)])
WORK = task(12, ram=16000)
WORLD = world(HOUSE, WORK, jobs=jobs(WORK, 2))
FOUND = {"before": [], "after": [], "explanations": {}, "lines": ["with memory 12000 instead of 16000"]}


def planned(*specs: TaskSpec) -> dict[str, Any]:
    """What the server answers to a plan of these."""
    found = preview.preview(WORLD, list(enumerate(specs)), None)
    tasks = [PlannedTask.of(one.index, one.name, one.jobs, one.choices) for one in found.tasks]
    return {"time": found.time, "seed": found.seed, "tasks": [to_document(task) for task in tasks]}


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


def test_what_would_be_decided_is_told_as_the_server_tells_it(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["POST /tasks/12/what-if"] = FOUND
    result = pilotage("explain", 12, "--what-if", "memory=12000")
    assert (result.exit_code, result.stdout) == (0, "with memory 12000 instead of 16000\n")
    body = {"task": {"memory": 12000}, "queues": {}}
    assert server.requests == [("POST /tasks/12/what-if", body)]


def test_a_job_is_asked_about_alone_and_json_has_all(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["POST /jobs/1/what-if"] = FOUND
    assert json.loads(pilotage("explain", "job:1", "--what-if", "memory=12000", "--json").stdout) == FOUND


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
        (["ram=1", "ram=2"], "ram appears twice; keep one"),
        (["Q.cores=1", "Q.cores=1"], "Q.cores appears twice; keep one"),
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


def test_tasks_are_planned_by_the_server_before_they_are_submitted(
    pilotage: Pilotage, server: FakeServer, task_file: Path
) -> None:
    specs = [TaskSpec(name="huge", ram=16000), TaskSpec(name="small", ram=1000, jobs=3)]
    server.answers["POST /plan/broker"] = {**planned(*specs), "refused": []}
    result = pilotage("plan", "broker", "--task", task_file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [task["name"] for task in server.requests[0][1]["tasks"]] == ["huge", "small"]
    lines = result.stdout.splitlines()
    assert lines[0] == "huge: none of 2 queues can take it"
    assert "small: 3 jobs placed; 2 of 2 queues can take them" in lines
    document = json.loads(pilotage("plan", "broker", "--task", task_file, "--json").stdout)
    assert [task["explanations"][0]["jobs"] for task in document["tasks"]] == [1, 3]


def test_tasks_are_planned_from_a_saved_world_without_a_server(
    pilotage: Pilotage, server: FakeServer, world_file: Path, task_file: Path
) -> None:
    words = ("plan", "broker", "--world", world_file, "--task", task_file)
    result = pilotage(*words)
    assert (result.exit_code, result.stderr, server.requests) == (0, "", [])
    assert result.stdout.splitlines()[0] == "huge: none of 2 queues can take it"
    told = pilotage(*words, "--json").stdout
    assert told == pilotage(*words, "--json").stdout
    document = json.loads(told)
    assert (document["time"], document["seed"], document["refused"]) == (WORLD.time, WORLD.seed, [])
    assert sum(document["tasks"][1]["choices"][0]["placed"].values()) == 3


def test_m2_m3_a_saved_world_knows_the_stations_that_its_sites_told(
    pilotage: Pilotage, world_file: Path, task_file: Path
) -> None:
    told = {"StationNames": ("chicago",)}
    ad = Advertisement(
        site="HOME", source="pushed", number=1, time=WORLD.time, pilots=0, submitting=0, attributes=told
    )
    words = ("plan", "broker", "--world", world_file, "--task", task_file)
    task_file.write_text("name: t\nbrokerage: matchmaking\nstations: [chicago]\n")
    assert "there is no station 'chicago'" in pilotage(*words).stderr
    world_file.write_text(write(replace(WORLD, advertisements=(ad,))))
    result = pilotage(*words)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "t: 1 job placed" in result.stdout


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
    refused = [{"index": 1, "errors": [fault]}]
    server.answers["POST /plan/broker"] = {**planned(TaskSpec(name="good")), "refused": refused}
    where = ("--world", world_file) if local else ()
    result = pilotage("plan", "broker", "--task", task_file, *where)
    assert result.exit_code == 2
    assert result.stdout.startswith("good: 1 job: ")
    assert "good: 1 job placed" in result.stdout
    assert result.stderr == f"{task_file}:4: tasks[1].nucleus: {fault['message']}\n"


@pytest.mark.parametrize("words", [("plan", "broker", "--task"), ("submit",)])
@pytest.mark.parametrize("local", [True, False])
def test_values_and_references_of_tasks_are_told_in_one_round(
    pilotage: Pilotage,
    server: FakeServer,
    world_file: Path,
    task_file: Path,
    local: bool,
    words: tuple[str, ...],
) -> None:
    task_file.write_text(
        "tasks:\n- {name: first, nam: x}\n- name: lost\n  ram: lots\n  share: 7\n  nucleus: HOEM\n"
    )
    wrong = {"field": "nucleus", "message": "there is no site 'HOEM'; did you mean HOME?"}
    follows = {"field": "share", "message": "there is no share 'default'"}
    refused = [{"index": 1, "errors": [wrong, follows]}]
    server.answers["POST /plan/broker"] = {"tasks": [], "refused": refused}
    where = ("--world", world_file) if local and words[0] == "plan" else ()
    result = pilotage(*words, task_file, *where)
    assert result.exit_code == 2
    assert [line.split(": ")[:2] for line in result.stderr.splitlines()] == [
        [f"{task_file}:2", "tasks[0].nam"],
        [f"{task_file}:4", "tasks[1].ram"],
        [f"{task_file}:5", "tasks[1].share"],
        [f"{task_file}:6", "tasks[1].nucleus"],
    ]


def test_without_a_server_the_values_of_tasks_are_told_alone(pilotage: Pilotage, task_file: Path) -> None:
    task_file.write_text("name: lost\nram: lots\nnucleus: HOEM\n")
    result = pilotage("submit", task_file)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


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
