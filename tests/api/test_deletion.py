"""People delete tasks and workflows that have ended, with copies that they alone used, and their outputs."""

from functools import partial

import pytest
from sqlalchemy import Connection, Select, func, select
from starlette.testclient import TestClient

from pilotage.model.documents.decision import Create, Move
from pilotage.model.records.logs import KeptLog, LogKey
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import File, NewJob, Replica
from pilotage.model.values.paths import copy_path, output_name
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.logs import logs

from .conftest import ALICE, BOB, House, Submit

INPUT = "atlas:runs/in.dat"


def with_files(house: House, submit: Submit, end: bool = True, **spec: object) -> int:
    """A task with a job that read a copy of an input, wrote a log and an output, and has ended."""
    task = submit(jobs=1, scouts=0, outputs=["out.txt"], **spec)
    (job,) = house.activate(task)
    name = f"user.alice~atlas:{output_name('small', task, job, 'out.txt')}"
    reader = NewJob(
        task=task, kind="normal", share="default", priority=500, requirements="[]", inputs=(INPUT,)
    )
    house.commit(
        Create(
            records=(
                File(name=INPUT, size=200, checksum=""),
                Replica(file=INPUT, storage="north-disk"),
                Replica(file=INPUT, storage="south-disk", path=copy_path("small", INPUT)),
                File(name=name, size=50, checksum="", task=task, job=job),
                Replica(file=name, storage="north-disk"),
                reader,
            ),
            cause="made",
        )
    )
    log = KeptLog(key=LogKey(kind="job", record=job, attempt=1), stream="stdout", size=1, head=1, data=b"x")
    house.store.logs.put([(log, ALICE)], house.now)
    return ended(house, task) if end else task


def ended(house: House, task: int) -> int:
    jobs = house.store.queries.jobs(task, None, 100)
    for job in jobs:
        house.commit(
            Move(kind="job", ids=(job.id,), source=job.state, target=JobState.CANCELLED, cause="test")
        )
    details = house.store.queries.task(task)
    assert details
    house.commit(
        Move(kind="task", ids=(task,), source=details.state, target=TaskState.CANCELLED, cause="test")
    )
    return task


def count(query: Select[int], connection: Connection) -> int:
    return connection.execute(query).scalar_one()


def removed(house: House) -> set[tuple[str, str]]:
    """Storages and paths whose bytes are to be removed."""
    return {(one.storage, one.path) for one in house.store.removals.take_due(house.now)}


def test_what_goes_is_listed_and_then_gone(house: House, alice: TestClient, submit: Submit) -> None:
    task = with_files(house, submit)
    plan = alice.post(f"/tasks/{task}/delete", json={"dry_run": True}).json()
    assert plan["lines"] == [
        "2 jobs with their logs and explanations",
        "1 copy, 200 B, that no other task has used",
        "(stays: 1 output, 50 B; with --outputs they go too)",
    ]
    assert alice.get(f"/tasks/{task}").status_code == 200
    assert alice.post(f"/tasks/{task}/delete").json()["tasks"][0]["id"] == task
    assert alice.get(f"/tasks/{task}").status_code == 404
    assert alice.get("/tasks").json()["tasks"] == []
    assert removed(house) == {("south-disk", copy_path("small", INPUT))}
    rest = (
        select(func.count()).select_from(logs),
        select(func.count()).select_from(counts).where(counts.c.first == str(task)),
    )
    assert [house.store.database.read(partial(count, query)) for query in rest] == [0, 0]
    names = [
        file["file"] for file in alice.get("/files", params={"scope": "user.alice~atlas"}).json()["files"]
    ]
    assert len(names) == 1, "its output stays in the catalogue"


def test_outputs_go_if_they_are_asked_for_unless_a_dataset_has_them(
    house: House, alice: TestClient, submit: Submit
) -> None:
    free, kept = with_files(house, submit), with_files(house, submit)
    (output,) = alice.get(f"/tasks/{kept}/outputs").json()["files"]
    members = {"dataset": "mine", "scope": "user.alice~atlas", "files": [output["name"]]}
    made = alice.post("/datasets", json=members)
    assert made.status_code == 200, made.text
    plan = alice.post(f"/tasks/{kept}/delete", json={"outputs": True}).json()
    assert (plan["outputs"]["files"], plan["kept"]["files"]) == (0, 1)
    assert plan["copies"]["files"] == 0, "the other task has read it"
    plan = alice.post(f"/tasks/{free}/delete", json={"outputs": True}).json()
    assert (plan["outputs"]["files"], plan["outputs"]["bytes"], plan["copies"]["files"]) == (1, 50, 1)
    (path,) = [path for storage, path in removed(house) if storage == "north-disk"]
    assert path.startswith(f"tasks/small/{free}/")
    files = alice.get("/files", params={"scope": "user.alice~atlas"}).json()["files"]
    assert [file["file"] for file in files] == [output["file"]]


@pytest.mark.parametrize("after", [[], ["first"]], ids=["not yet split", "waiting"])
def test_an_output_stays_that_a_job_will_read_which_is_not_made_yet(
    house: House, alice: TestClient, submit: Submit, after: list[str]
) -> None:
    task = with_files(house, submit)
    (output,) = alice.get(f"/tasks/{task}/outputs").json()["files"]
    asked = {"name": output["name"], "scope": "user.alice~atlas", "size": 50, "replicas": ["north-disk"]}
    submit(name="first")
    submit(name="reader", inputs=[asked], after=after)
    house.now += 3600
    plan = alice.post(f"/tasks/{task}/delete", json={"outputs": True, "dry_run": True}).json()
    assert (plan["outputs"]["files"], plan["kept"]["files"]) == (0, 1)
    assert alice.post(f"/tasks/{task}/delete", json={"outputs": True}).json() == plan
    assert {storage for storage, _ in removed(house)} == {"south-disk"}
    assert alice.get("/files/describe", params={"file": output["file"]}).json()["replicas"]


def test_only_what_has_ended_and_is_not_waited_for_is_deleted(
    house: House, alice: TestClient, submit: Submit
) -> None:
    task = with_files(house, submit, end=False, name="first")
    answer = alice.post(f"/tasks/{task}/delete")
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        f"task {task} is running: cancel it first, pilotage cancel {task}",
    )
    later = submit(name="second", after=["first"])
    ended(house, task)
    answer = alice.post(f"/tasks/{task}/delete")
    assert answer.json()["detail"] == f"task {later} waits for task {task}: pilotage cancel {later}"
    assert alice.post(f"/tasks/{later}/cancel").status_code == 200
    assert alice.post(f"/tasks/{task}/delete").status_code == 200


def test_a_workflow_goes_with_its_tasks_and_is_its_owners(
    house: House, alice: TestClient, submit: Submit
) -> None:
    stages = [{"name": "a"}, {"name": "b", "after": ["a"]}]
    made = alice.post("/workflows", json={"name": "flow", "tasks": stages}).json()
    assert house.as_("user", BOB).post(f"/workflows/{made['id']}/delete").status_code == 404
    assert alice.post(f"/workflows/{made['id']}/delete").status_code == 409
    for task in made["tasks"]:
        alice.post(f"/tasks/{task['id']}/cancel")
    assert len(alice.post(f"/workflows/{made['id']}/delete").json()["tasks"]) == 2
    assert alice.get("/workflows").json()["workflows"] == []


def test_many_jobs_go_in_several_transactions(
    house: House, alice: TestClient, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilotage.store.commit.deletion.SLICE", 2)
    task = submit(jobs=5, scouts=0)
    house.activate(task)
    ended(house, task)
    assert alice.post(f"/tasks/{task}/delete").json()["tasks"][0]["jobs"] == 5
    assert alice.get(f"/tasks/{task}").status_code == 404
