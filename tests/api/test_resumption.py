"""A workflow that is submitted again refers to tasks of the one before, and says what runs and why."""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pilotage import request_budget
from pilotage.flow.calls.work.resumption import decide
from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.model.documents.decision import Create, Move
from pilotage.model.documents.serialization import from_json
from pilotage.model.records.chains import NewStage
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import File, Replica, TaskSpec
from pilotage.model.values.paths import output_name
from pilotage.store import StagesChanged

from .conftest import ALICE, BOB, House, federation

WAY = (JobState.ACTIVATED, JobState.SENT, JobState.RUNNING, JobState.FINISHED)
ODD = "o ü#1.bam"
ALIGN: Mapping[str, Any] = {"name": "align", "command": ["bwa"], "outputs": [ODD], "jobs": 2, "scouts": 0}
CALL: Mapping[str, Any] = {
    "name": "call",
    "command": ["call"],
    "inputs": [{"task": "align", "match": "*.bam"}],
    "outputs": ["c.txt"],
    "scouts": 0,
}


@pytest.fixture
def first(house: House, alice: TestClient, tmp_path: Path) -> list[int]:
    """The tasks of a workflow that has finished."""
    house.store.save_federation(federation(tmp_path), "test")
    tasks = submitted(alice)["tasks"]
    align, call = (task["id"] for task in tasks)
    house.split()
    end(house, align, tmp_path / "north", ODD)
    take(step("chain"), house.runtime, house.runtime.begin(1000))
    house.split()
    end(house, call, tmp_path / "north", "c.txt")
    return [align, call]


def submitted(client: TestClient, *tasks: Mapping[str, Any], resume: bool = False, **headers: str) -> Any:
    """The answer to a submission of the workflow."""
    body = {"name": "flow", "tasks": [*(tasks or (ALIGN, CALL))], "resume": resume}
    answer = client.post("/workflows", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()


def end(house: House, task: int, storage: Path, name: str, state: TaskState = TaskState.FINISHED) -> None:
    """Let the jobs of a task finish with an output each, and the task end in a state."""
    jobs = house.store.queries.jobs(task, None, 10)
    numbers = tuple(job.id for job in jobs)
    for job in jobs:
        path = output_name("small", task, job.id, name)
        (storage / path).parent.mkdir(parents=True, exist_ok=True)
        (storage / path).write_bytes(b"made")
        file = File(name=f"user.alice~atlas:{path}", size=4, checksum="", task=task, job=job.id)
        house.commit(Create(records=(file, Replica(file=file.name, storage="north-disk")), cause="made"))
    for source, target in pairwise((JobState.DEFINED, *WAY)):
        house.commit(Move(kind="job", ids=numbers, source=source, target=target, cause="test"))
    house.commit(Move(kind="task", ids=(task,), source=TaskState.RUNNING, target=state, cause="test"))


def reasons(answer: Any) -> dict[str, Any]:
    """What became of each stage: the task that stands for it, or why it runs."""
    return {stage["name"]: stage["reason"] or stage["task"] for stage in answer["stages"]}


def test_what_is_there_is_not_run_again(house: House, alice: TestClient, first: list[int]) -> None:
    again = submitted(alice, resume=True)
    assert (again["id"], again["tasks"], reasons(again)) == (1, [], {"align": first[0], "call": first[1]})
    assert len(alice.get("/workflows").json()["workflows"]) == 1, "nothing is made where nothing runs"
    changed = submitted(
        alice, ALIGN, {**CALL, "command": ["call", "-q"]}, resume=True, **{"Idempotency-Key": "k"}
    )
    (task,) = changed["tasks"]
    expected = {"align": first[0], "call": "its command changed"}
    assert (task["index"], task["name"], reasons(changed)) == (1, "call", expected)
    view = alice.get(f"/workflows/{changed['id']}").json()
    assert reasons(view) == expected
    assert [one["task"] for one in view["tasks"][0]["predecessors"]] == [first[0]]
    lines = alice.get(f"/workflows/{changed['id']}/explain").json()["lines"]
    assert lines[-2:] == [
        f"align is skipped: task {first[0]} has made its outputs",
        "call runs: its command changed",
    ]
    repeated = submitted(
        alice, ALIGN, {**CALL, "command": ["call", "-q"]}, resume=True, **{"Idempotency-Key": "k"}
    )
    assert (repeated["id"], repeated["tasks"]) == (changed["id"], changed["tasks"])
    assert reasons(repeated) == expected
    take(step("chain"), house.runtime, house.runtime.begin(1000))
    read = alice.get(f"/tasks/{task['id']}").json()["spec"]["inputs"]
    assert {file["name"].rpartition("/")[2] for file in read} == {ODD}


@pytest.mark.parametrize("fault", [request_budget.RequestTooLong, request_budget.ClientGone])
def test_comparing_stages_ends_with_the_share_of_a_request(
    house: House, first: list[int], fault: type[Exception]
) -> None:
    """Stages may each read 100,000 files, and a workflow may have 200 of them."""
    stage = NewStage(spec=from_json(TaskSpec, json.dumps(ALIGN), strict=True))
    with request_budget.opened() as budget, budget.measured():
        assert decide(house.runtime, ALICE, "flow", (stage,))[0].task == first[0]
        if fault is request_budget.ClientGone:
            budget.is_client_gone = True
        else:
            budget.spent = request_budget.MOST_SECONDS
        with pytest.raises(fault):
            decide(house.runtime, ALICE, "flow", (stage,))


def test_a_deleted_output_makes_its_stage_run_and_what_reads_it(
    house: House, alice: TestClient, first: list[int], tmp_path: Path
) -> None:
    job = house.store.queries.jobs(first[1], None, 10)[0].id
    (tmp_path / "north" / output_name("small", first[1], job, "c.txt")).unlink()
    gone = f"1 output of task {first[1]} gone or changed"
    assert reasons(submitted(alice, resume=True)) == {"align": first[0], "call": gone}
    lost = house.store.queries.jobs(first[0], None, 10)[1].id
    name = f"user.alice~atlas:{output_name('small', first[0], lost, ODD)}"
    assert alice.post("/files/forget", json={"file": name}).status_code == 204
    forgotten = reasons(submitted(alice, resume=True))
    assert forgotten["align"] == f"outputs of 1 job of task {first[0]} are gone"
    assert forgotten["call"] == "stage align runs again"


def test_tasks_of_others_and_of_other_workflows_do_not_count(
    house: House, alice: TestClient, first: list[int]
) -> None:
    grant = {"kind": "workflow", "record": "1", "person": "bob", "vo": "atlas"}
    assert alice.post("/grants", json=grant).status_code in (200, 201)
    never = "it has not run in a workflow of this name"
    bobs = submitted(house.as_("user", BOB), resume=True)
    assert reasons(bobs) == {"align": never, "call": never}
    body = {"name": "other", "tasks": [ALIGN], "resume": True}
    assert reasons(alice.post("/workflows", json=body).json()) == {"align": never}
    assert alice.get(f"/tasks/{first[0]}").json()["state"] == "finished"


def test_a_task_that_is_deleted_meanwhile_stands_for_no_stage(
    house: House, alice: TestClient, first: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = house.store.commit

    def after_a_deletion(*words: Any) -> Any:
        monkeypatch.setattr(house.store, "commit", commit)
        assert alice.post(f"/tasks/{first[0]}/delete", json={}).status_code == 200
        return commit(*words)

    body = {"name": "flow", "tasks": [ALIGN, {**CALL, "command": ["other"]}], "resume": True}
    monkeypatch.setattr(house.store, "commit", after_a_deletion)
    answer = alice.post("/workflows", json=body)
    assert (answer.status_code, answer.json()["detail"]) == (409, str(StagesChanged()))
    assert len(alice.get("/workflows").json()["workflows"]) == 1
    assert reasons(alice.post("/workflows", json=body).json())["align"].startswith("it has not run")


def test_a_failed_stage_runs_again_and_a_changed_input_too(
    house: House, alice: TestClient, tmp_path: Path
) -> None:
    house.store.save_federation(federation(tmp_path), "test")
    reads = tmp_path / "north" / "reads"
    reads.mkdir(parents=True)
    (reads / "é 1.fq").write_bytes(b"ACGT")
    one = {**ALIGN, "jobs": 1, "inputs": [{"storages": ["north-disk"], "glob": "reads/*"}]}
    (task,) = submitted(alice, one)["tasks"]
    house.split()
    end(house, task["id"], tmp_path / "north", ODD, TaskState.FAILED)
    again = submitted(alice, one, resume=True)
    assert reasons(again) == {"align": f"task {task['id']} failed"}
    house.split()
    end(house, again["tasks"][0]["id"], tmp_path / "north", ODD)
    assert reasons(submitted(alice, one, resume=True)) == {"align": again["tasks"][0]["id"]}
    (reads / "é 1.fq").write_bytes(b"TGCA")
    assert reasons(submitted(alice, one, resume=True)) == {"align": "input reads/é 1.fq changed"}
