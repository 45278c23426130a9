"""The manifest of a task: an RO-Crate that says what ran, and that has the task's document."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from pilotage.explain import crates
from pilotage.flow.outside.file_readers import MOST_OF_ONE
from pilotage.model.documents.decision import Create, Move
from pilotage.model.documents.serialization import from_json
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import File, TaskSpec
from pilotage.model.rules.job_payload import first_seed
from pilotage.model.values.paths import output_name

from .conftest import ALICE, BOB, House

ODD = "plots/Größe (1): %#+.csv"
SWEEP = {
    "name": "sweep",
    "command": ["sim", "--k", "{k}"],
    "parameters": {"k": ["21", "31"]},
    "inputs": [{"name": "odd #1.fa", "size": 5, "checksum": "adler32:00000001", "replicas": ["north-disk"]}],
    "outputs": [ODD],
    "environment": {"THREADS": "2"},
    "modules": ["gcc/12.2"],
    "notify": [{"url": "https://alice.example/hook?secret=1"}],
    "scouts": 0,
}


@pytest.fixture
def task(house: House, alice: TestClient) -> int:
    """A task of two jobs that has finished."""
    answer = alice.post("/tasks", json={"tasks": [SWEEP]})
    assert answer.status_code == 201, answer.text
    number = int(answer.json()["tasks"][0]["id"])
    house.split()
    for job in house.store.queries.jobs(number, None, 10):
        name = f"user.alice~atlas:{output_name('small', number, job.id, ODD)}"
        made = File(name=name, size=4, checksum="sha256:" + "0" * 64, task=number, job=job.id)
        house.commit(Create(records=(made,), cause="made"))
    return number


def end(house: House, task: int, state: TaskState) -> None:
    """End a task in a state, and its jobs."""
    jobs = tuple(job.id for job in house.store.queries.jobs(task, None, 10))
    house.commit(
        Move(kind="job", ids=jobs, source=JobState.DEFINED, target=JobState.CANCELLED, cause="test"),
        Move(kind="task", ids=(task,), source=TaskState.RUNNING, target=state, cause="test"),
    )


def entities(client: TestClient, task: int) -> Mapping[str, Any]:
    """The entities of a manifest by name."""
    answer = client.get(f"/tasks/{task}/manifest")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/ld+json")
    assert 'filename="ro-crate-metadata.json"' in answer.headers["content-disposition"]
    return {entity["@id"]: entity for entity in answer.json()["@graph"]}


def test_a_manifest_names_files_by_where_fetch_puts_them_and_has_the_document(
    house: House, alice: TestClient, task: int
) -> None:
    end(house, task, TaskState.CANCELLED)
    graph = entities(alice, task)
    first = house.store.queries.jobs(task, None, 1)[0].id
    output = graph[f"{first}/plots/Gr%C3%B6%C3%9Fe%20%281%29%3A%20%25%23%2B.csv"]
    assert (output["name"], output["contentSize"], output["position"]) == (ODD, "4", 0)
    assert output["sha256"] == "0" * 64
    (read,) = (entity for name, entity in graph.items() if name.startswith("urn:"))
    assert (read["identifier"], read["adler32"]) == ("atlas:odd #1.fa", "00000001")
    parts = {part["@id"] for part in graph["./"]["hasPart"]}
    assert parts == {name for name, entity in graph.items() if entity["@type"] == "File"}
    assert graph["#environment-THREADS"]["value"] == "2"
    assert graph["#module-gcc%2F12.2"]["softwareVersion"] == "12.2"
    document = from_json(TaskSpec, graph[crates.DOCUMENT]["text"], strict=True)
    assert document.command == ("sim", "--k", "{k}")
    assert document.seed == first_seed(replace(document, seed=None), task), "another task draws the same"


def test_others_see_no_manifest_and_none_has_webhooks(house: House, alice: TestClient, task: int) -> None:
    end(house, task, TaskState.CANCELLED)
    assert house.as_("user", BOB).get(f"/tasks/{task}/manifest").status_code == 404
    grant = {"kind": "task", "record": str(task), "person": "bob", "vo": "atlas"}
    assert alice.post("/grants", json=grant).status_code in (200, 201)
    for reader in (alice, house.as_("user", BOB)):
        text = reader.get(f"/tasks/{task}/manifest").text
        assert ("alice.example" in text, "THREADS" in text) == (False, True)


def test_a_task_has_a_manifest_when_it_has_ended(alice: TestClient, task: int) -> None:
    answer = alice.get(f"/tasks/{task}/manifest")
    assert answer.status_code == 409
    assert f"task {task} is running" in answer.json()["detail"]


def test_a_person_reads_few_manifests_at_a_time(house: House, alice: TestClient, task: int) -> None:
    """Each reads all jobs several times."""
    end(house, task, TaskState.CANCELLED)
    with ExitStack() as others:
        for _ in range(MOST_OF_ONE):
            others.enter_context(house.runtime.file_readers.place(ALICE.key))
        answer = alice.get(f"/tasks/{task}/manifest")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    for _ in range(MOST_OF_ONE + 1):
        assert entities(alice, task), "each gives its place back"


def test_a_task_of_many_jobs_is_one_action_with_all_files(
    house: House, alice: TestClient, task: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crates, "MOST_ACTIONS", 1)
    end(house, task, TaskState.FINISHED)
    graph = entities(alice, task)
    (action,) = (entity for entity in graph.values() if entity["@type"] == "CreateAction")
    assert [len(action[name]) for name in ("object", "result")] == [1, 2]
    assert {"@id": action["@id"]} in graph["./"]["mentions"]
    assert ALICE.name == graph["#owner"]["name"]
    assert json.loads(graph[crates.DOCUMENT]["text"])["parameters"] == {"k": ["21", "31"]}
