"""Grants: what they let others read, how they are listed, and how they end. Routes: ``test_access``."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from pilotage.model.documents.decision import Create
from pilotage.model.records.work import File, Replica
from pilotage.model.values.identity import Identity
from pilotage.model.values.paths import output_name
from pilotage.store.people import grants

from .conftest import ALICE, BOB, OTHER_ALICE, House, Submit, federation, submit_to


@pytest.fixture
def bob(house: House) -> TestClient:
    """A client with Bob's token."""
    return house.as_("user", BOB)


def output_of(house: House, task: int, directory: Path) -> str:
    """Let the job of a task have made an output, and return its identifier."""
    house.store.save_federation(federation(directory), "test")
    (job,) = house.activate(task)
    name = output_name("small", task, job, "out.txt")
    path = directory / "north" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"42")
    file = f"user.alice~atlas:{name}"
    made = (
        File(name=file, size=2, checksum="", task=task, job=job),
        Replica(file=file, storage="north-disk"),
    )
    house.commit(Create(records=made, cause="made"))
    return file


def test_results_of_a_task_come_by_a_grant(
    house: House, alice: TestClient, bob: TestClient, submit: Submit, tmp_path: Path
) -> None:
    task = submit()
    file = output_of(house, task, tmp_path)
    for path in ("/files/content", "/files/describe"):
        assert bob.get(path, params={"file": file}).status_code == 403
    alice.post("/grants", json={"kind": "task", "record": str(task), "person": "bob"})
    assert bob.get("/files/content", params={"file": file}).content == b"42"
    assert bob.get("/files/describe", params={"file": file}).json()["size"] == 2
    assert bob.get("/files", params={"scope": "user.alice~atlas"}).status_code == 403, "not all of her files"
    assert bob.post("/files/forget", json={"file": file}).status_code == 403
    assert house.as_("user", OTHER_ALICE).get("/files/content", params={"file": file}).status_code == 403


def test_a_dataset_and_its_files_come_by_a_grant(
    house: House, alice: TestClient, bob: TestClient, submit: Submit, tmp_path: Path
) -> None:
    file = output_of(house, submit(), tmp_path)
    members = {"dataset": "mine", "scope": "user.alice~atlas", "files": [file.partition(":")[2]]}
    assert alice.post("/datasets", json=members).status_code == 200
    name = {"dataset": "user.alice~atlas:mine"}
    assert bob.get("/datasets/files", params=name).status_code == 403
    grant = {"kind": "dataset", "record": "mine", "group": "higgs"}
    assert alice.post("/grants", json=grant).json()["record"] == "user.alice~atlas:mine"
    assert [one["file"] for one in bob.get("/datasets/files", params=name).json()["files"]] == [file]
    assert bob.get("/datasets/versions", params=name).status_code == 200
    assert bob.get("/files/content", params={"file": file}).content == b"42"
    assert bob.post("/datasets/forget", json=name).status_code == 403
    assert alice.post("/grants", json={**grant, "record": "nothing"}).status_code == 404
    alice.post("/grants/revoke", json=grant)
    assert bob.get("/files/content", params={"file": file}).status_code == 403


def test_grants_are_listed_by_both_and_end_by_themselves(
    house: House, alice: TestClient, bob: TestClient, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house.store.grants, "_clock", lambda: house.now)
    task = submit()
    grant = {"kind": "task", "record": str(task), "person": "bob", "until": house.now + 3600}
    assert alice.post("/grants", json={**grant, "until": house.now}).status_code == 422
    assert alice.post("/grants", json=grant).json()["by"] == "alice"
    assert alice.post("/grants", json=grant).status_code == 200, "the same again"
    assert alice.post("/grants", json={**grant, "person": "eve", "until": None}).json()["until"] is None
    alice.post("/grants/revoke", json={"kind": "task", "record": str(task), "person": "eve"})
    stranger = house.as_("user", Identity(name="eve", vo="atlas"))
    operator = house.as_("operator", Identity(name="olga"))
    shown = [len(client.get("/grants").json()["grants"]) for client in (alice, bob, stranger, operator)]
    assert shown == [1, 1, 0, 1]
    assert bob.get("/tasks").json()["tasks"] == []
    assert [one["id"] for one in bob.get("/tasks", params={"shared": True}).json()["tasks"]] == [task]
    house.now += 3601
    assert bob.get(f"/tasks/{task}").status_code == 404
    assert bob.get("/tasks", params={"shared": True}).json()["tasks"] == []
    assert alice.get("/grants").json()["grants"] == []


def test_events_of_a_granted_task_come_if_they_are_asked_for(
    house: House, alice: TestClient, bob: TestClient, submit: Submit
) -> None:
    task = submit()
    assert bob.get("/events", params={"task": task, "after": 0}).status_code == 404
    alice.post("/grants", json={"kind": "task", "record": str(task), "person": "bob"})
    assert bob.get("/events", params={"task": task, "after": 0}).json()["events"]
    assert not bob.get("/events", params={"kind": "task", "after": 0}).json()["events"]


def test_only_ones_own_is_granted_and_not_without_end(
    house: House, alice: TestClient, bob: TestClient, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = submit()
    grant = {"kind": "task", "record": str(task), "person": "bob"}
    assert bob.post("/grants", json=grant).status_code == 404
    assert alice.post("/grants", json={**grant, "group": "higgs"}).status_code == 422
    assert alice.post("/grants", json={**grant, "record": "abc"}).status_code == 422
    assert alice.post("/grants/revoke", json=grant).status_code == 404
    monkeypatch.setattr(grants, "MOST_OF_PERSON", 1)
    assert alice.post("/grants", json=grant).status_code == 200
    assert alice.post("/grants", json={**grant, "person": "eve"}).status_code == 409


def test_a_task_is_not_read_by_all_who_have_no_group(house: House) -> None:
    carol = house.as_("user", Identity(name="carol", vo="atlas"))
    task = submit_to(carol)
    assert (
        carol.post("/grants", json={"kind": "task", "record": str(task), "person": "dan"}).status_code == 200
    )
    nobody = house.as_("user", Identity(name="", vo="atlas"))
    assert nobody.get(f"/tasks/{task}").status_code == 404


def test_what_is_deleted_takes_its_grants_along(house: House, alice: TestClient, submit: Submit) -> None:
    made = alice.post("/workflows", json={"name": "flow", "tasks": [{"name": "a"}]}).json()
    task = made["tasks"][0]["id"]
    for kind, record in (("task", task), ("workflow", made["id"])):
        grant = {"kind": kind, "record": str(record), "person": "bob"}
        assert alice.post("/grants", json=grant).status_code == 200
    alice.post(f"/tasks/{task}/cancel")
    assert alice.post(f"/tasks/{task}/delete").status_code == 200
    assert [*house.store.grants.page(ALICE, 9)] == []


def test_a_dataset_of_the_same_name_is_not_read_by_a_grant_of_a_forgotten_one(
    house: House, alice: TestClient, bob: TestClient, submit: Submit, tmp_path: Path
) -> None:
    file = output_of(house, submit(), tmp_path)
    members = {"dataset": "mine", "scope": "user.alice~atlas", "files": [file.partition(":")[2]]}
    name = {"dataset": "user.alice~atlas:mine"}
    alice.post("/datasets", json=members)
    alice.post("/grants", json={"kind": "dataset", "record": "mine", "person": "bob"})
    assert bob.get("/datasets/files", params=name).status_code == 200
    assert alice.post("/datasets/forget", json=name).status_code == 204
    assert [*house.store.grants.page(ALICE, 9)] == []
    assert alice.post("/datasets", json=members).status_code == 200
    assert bob.get("/datasets/files", params=name).status_code == 403
    assert bob.get("/files/content", params={"file": file}).status_code == 403


def test_grants_come_in_pages(house: House, alice: TestClient, bob: TestClient, submit: Submit) -> None:
    task = submit()
    for person in ("bob", "carl", "dora"):
        alice.post("/grants", json={"kind": "task", "record": str(task), "person": person})
    first = alice.get("/grants", params={"limit": 2}).json()
    assert ([grant["person"] for grant in first["grants"]], first["total"]) == (["bob", "carl"], 3)
    rest = alice.get("/grants", params={"limit": 2, "after": first["next"]}).json()
    assert ([grant["person"] for grant in rest["grants"]], rest["next"]) == (["dora"], "")
    assert bob.get("/grants").json()["total"] == 1
    for cursor in ("x", "WyJhIl0="):
        assert alice.get("/grants", params={"after": cursor}).status_code == 422


def test_a_group_lets_its_members_read_or_change_each_others_tasks(house: House, submit: Submit) -> None:
    task = submit()
    (job,) = house.activate(task)
    bob, mona = house.as_("user", BOB), house.as_("manager", Identity(name="mona", vo="atlas"))
    outside = house.as_("user", Identity(name="oscar", vo="atlas", group="top"))
    elsewhere = house.as_("user", Identity(name="bob", vo="belle", group="higgs"))
    grant = {"kind": "group", "record": "higgs", "group": "higgs"}

    def statuses(client: TestClient) -> list[int]:
        reads = client.get(f"/tasks/{task}"), client.get(f"/jobs/{job}")
        return [answer.status_code for answer in (*reads, client.post(f"/tasks/{task}/hold"))]

    assert statuses(bob) == [404, 404, 404]
    assert mona.post("/grants", json=grant).json()["record"] == "atlas:higgs"
    assert statuses(bob) == [200, 200, 403]
    assert statuses(outside) == statuses(elsewhere) == [404, 404, 404]
    assert [one["id"] for one in bob.get("/tasks?shared=true").json()["tasks"]] == [task]
    assert house.as_("user", ALICE).get("/tasks?shared=true").json()["tasks"] == [], "her own"
    assert mona.post("/grants", json={**grant, "manages": True}).json()["manages"]
    assert statuses(bob) == [200, 200, 200]
    of_task = {"kind": "task", "record": str(task), "person": "oscar"}
    assert bob.post("/grants", json=of_task).status_code == 403, "they grant it to nobody else"
    assert mona.post("/grants/revoke", json=grant).status_code == 200
    assert statuses(bob) == [404, 404, 404]


def test_a_grant_may_let_others_change_a_task_or_a_workflow(house: House, alice: TestClient) -> None:
    made = alice.post("/workflows", json={"name": "flow", "tasks": [{"name": "work"}]}).json()
    task, bob = made["tasks"][0]["id"], house.as_("user", BOB)
    for kind, record in (("task", task), ("workflow", made["id"])):
        grant = {"kind": kind, "record": str(record), "person": "bob"}
        assert bob.post(f"/tasks/{task}/renew", json={"lease": 86400}).status_code == 404
        assert alice.post("/grants", json={**grant, "manages": True}).status_code == 200
        assert bob.post(f"/tasks/{task}/renew", json={"lease": 86400}).status_code == 200
        assert alice.post("/grants/revoke", json=grant).status_code == 200
    dataset = {"kind": "dataset", "record": "runs", "person": "bob", "manages": True}
    assert alice.post("/grants", json=dataset).status_code == 422


def test_only_its_manager_and_operators_grant_the_work_of_a_group(
    house: House, alice: TestClient, operator: TestClient
) -> None:
    grant = {"kind": "group", "record": "higgs", "group": "higgs", "vo": "atlas"}
    others = (alice, house.as_("manager", OTHER_ALICE), house.as_("site-admin", ALICE, sites=["north"]))
    assert [client.post("/grants", json=grant).status_code for client in others] == [403, 403, 403]
    assert house.as_("monitor", ALICE).post("/grants", json=grant).status_code == 403
    assert operator.post("/grants", json={**grant, "record": "a:b"}).status_code == 422
    assert operator.post("/grants", json=grant).json()["record"] == "atlas:higgs"
