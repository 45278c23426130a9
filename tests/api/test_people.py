"""Queues, shares, pilots, transfers, federation, world and tokens, as people use them."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pilotage.model.documents.decision import Create
from pilotage.model.documents.serialization import from_document, to_document
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import TransferState
from pilotage.model.records.work import File, NewTransfer, Replica
from pilotage.testing.stores import create, moved, passage

from .conftest import ALICE, OTHER_ALICE, House, Submit, federation


def transfer(house: House, file: str = "data.txt", priority: int = 25) -> None:
    new = NewTransfer(
        file=file,
        source="north-disk",
        destination="south-disk",
        direction="download",
        share="atlas-download",
        priority=priority,
    )
    house.commit(Create(records=(new,), cause="needed"))


def test_queues_show_what_is_there(house: House, alice: TestClient, submit: Submit) -> None:
    house.activate(submit(jobs=2))
    house.pilot()
    queues = {queue["name"]: queue for queue in alice.get("/queues").json()["queues"]}
    assert queues["north-queue"] == {
        "breakers": [],
        "name": "north-queue",
        "site": "north",
        "status": "online",
        "restriction": "",
        "cores": 1,
        "max_memory": 0,
        "max_walltime": 0,
        "jobs": {"activated": 2},
        "pilots": {"submitted": 1},
    }
    assert (queues["south-queue"]["jobs"], queues["south-queue"]["pilots"]) == ({}, {})


def test_shares_show_what_is_theirs(house: House, alice: TestClient, submit: Submit) -> None:
    house.activate(submit())
    (share,) = [share for share in alice.get("/shares").json()["shares"] if share["name"] == "default"]
    assert share["jobs"] == {"activated": 1}


def test_what_pilots_waited_before_they_called_is_told_by_queue(
    house: House, alice: TestClient, operator: TestClient
) -> None:
    for queue, wait in (("north-queue", 7), ("north-queue", 9), ("south-queue", 40)):
        _, client = house.pilot(queue)
        house.now += wait
        client.post("/pilot/report", json={})
    house.pilot("south-queue")
    assert alice.get("/pilots/waits").json()["waits"] == {"north-queue": [9, 7], "south-queue": [40]}
    assert alice.get("/pilots/waits", params={"after": house.now}).json()["waits"] == {}


def test_pilots_are_listed_by_state_and_queue(house: House, operator: TestClient) -> None:
    first, client = house.pilot("north-queue")
    second, _ = house.pilot("south-queue")
    client.post("/pilot/report", json={})

    def listed(**parameters: Any) -> list[int]:
        return [pilot["id"] for pilot in operator.get("/pilots", params=parameters).json()["pilots"]]

    assert listed() == [second, first]
    assert listed(queue="south-queue") == [second]
    assert listed(state="running") == [first]
    assert listed(limit=1) == [second]


def test_an_operator_gives_transfers_priorities(house: House, operator: TestClient) -> None:
    transfer(house)
    (found,) = operator.get("/transfers").json()["transfers"]
    assert (found["file"], found["priority"], found["state"]) == ("data.txt", 25, "queued")
    wanted = {"priorities": [{"id": found["id"], "priority": 90}, {"id": 999, "priority": 1}]}
    assert operator.post("/transfers/priorities", json=wanted).json() == {"changed": [found["id"]]}
    assert operator.get("/transfers").json()["transfers"][0]["priority"] == 90
    assert "stage" in house.woken()


def test_a_manager_gives_priorities_to_transfers_of_the_vo(house: House, operator: TestClient) -> None:
    for file in ("atlas:a", "user.alice~atlas:b", "belle:c", "user.alice~belle:d"):
        transfer(house, file)
    found = {one["file"]: one["id"] for one in operator.get("/transfers").json()["transfers"]}
    wanted = {"priorities": [{"id": id_, "priority": 90} for id_ in found.values()]}
    changed = house.as_("manager", ALICE).post("/transfers/priorities", json=wanted).json()["changed"]
    assert changed == sorted((found["atlas:a"], found["user.alice~atlas:b"]))
    assert house.as_("user", ALICE).post("/transfers/priorities", json=wanted).status_code == 403


def test_a_priority_outside_1_to_100_is_refused(house: House, operator: TestClient) -> None:
    transfer(house)
    for priority in (0, 101):
        wanted = {"priorities": [{"id": 1, "priority": priority}]}
        answer = operator.post("/transfers/priorities", json=wanted)
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["field"] == "priorities.0.priority"


def test_the_federation_is_replaced_as_a_whole_or_not_at_all(
    house: House, operator: TestClient, tmp_path: Path
) -> None:
    document = to_document(federation(tmp_path)) | {"container_sources": {"added": ["/x"]}}
    assert operator.put("/federation", json=document).status_code == 200
    assert from_document(Federation, operator.get("/federation").json()).container_sources
    assert "broker" in house.woken()
    document["queues"][0]["storage"] = "nowhere"
    answer = operator.put("/federation", json=document)
    assert answer.status_code == 422
    assert "queues[0].storage" in [fault["field"] for fault in answer.json()["detail"]]
    assert operator.get("/federation").json()["queues"][0]["storage"] != "nowhere"


def test_a_federation_of_another_name_is_refused(house: House, operator: TestClient, tmp_path: Path) -> None:
    answer = operator.put("/federation", json=to_document(federation(tmp_path)) | {"name": "renamed"})
    (fault,) = answer.json()["detail"]
    assert (answer.status_code, fault["field"]) == (422, "name")
    assert "keep the name, or give 'renamed' a store of its own" in fault["message"]
    assert operator.get("/federation").json()["name"] == "small"
    assert "broker" not in house.woken()


def test_a_federation_is_tried_before_it_is_loaded(house: House, operator: TestClient) -> None:
    document = operator.get("/federation").json()
    document["queues"][0]["status"] = "offline"
    name = document["queues"][0]["name"]
    tried = operator.put("/federation", json=document, params={"dry_run": True}).json()
    assert tried["changes"] == [f"  queues.{name}.status: online -> offline"]
    assert operator.get("/federation").json()["queues"][0]["status"] == "online"
    assert operator.put("/federation", json=document).json()["version"] == tried["version"] + 1


def test_a_federation_that_loses_files_is_refused_unless_forced(house: House, operator: TestClient) -> None:
    create(house.store, File(name="a", size=1, checksum=""))
    document = operator.get("/federation").json()
    create(house.store, Replica(file="a", storage=document["storages"][0]["name"]))
    document["storages"][0]["url"] = "file:///elsewhere"
    refused = operator.put("/federation", json=document)
    assert refused.status_code == 409
    assert "1 known file, 1 of which no other storage has" in refused.json()["detail"]
    assert operator.put("/federation", json=document, params={"force": True}).status_code == 200


@pytest.mark.parametrize(
    "content_type", ["application/yaml", "text/plain", "application/x-www-form-urlencoded"]
)
@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/federation"), ("POST", "/tasks"), ("POST", "/plan/broker")]
)
def test_what_is_no_json_is_refused_by_its_content_type(
    operator: TestClient, method: str, path: str, content_type: str
) -> None:
    answer = operator.request(method, path, content=b"name: x", headers={"Content-Type": content_type})
    assert answer.status_code == 415
    assert answer.json()["detail"] == "send JSON, with `Content-Type: application/json`"


def test_options_are_shown_to_operators_alone(house: House, alice: TestClient, operator: TestClient) -> None:
    assert operator.get("/federation").text.count("secret") == 3
    shown = alice.get("/federation")
    assert "secret" not in shown.text
    assert [queue["name"] for queue in shown.json()["queues"]] == ["north-queue", "south-queue"]


def test_a_token_that_an_operator_makes_is_who_it_says(house: House, operator: TestClient) -> None:
    asked = {"role": "user", "name": ALICE.name, "vo": ALICE.vo, "expires_in": 60}
    answer = operator.post("/tokens", json=asked)
    assert answer.status_code == 201
    client = house.client(answer.json()["token"])
    assert client.post("/tasks", json={"tasks": [{"name": "work"}]}).status_code == 201
    (task,) = client.get("/tasks").json()["tasks"]
    assert (task["owner"], task["vo"]) == ("alice", "atlas")


def test_nobody_makes_a_pilots_token(operator: TestClient) -> None:
    answer = operator.post("/tokens", json={"role": "pilot", "name": "p"})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["field"] == "role"


def test_words_and_numbers_that_no_store_holds_are_refused(operator: TestClient) -> None:
    for words in ("a\0", "", "é", "a" * 201):
        answer = operator.get("/pilots", params={"queue": words})
        assert (answer.status_code, answer.json()["detail"][0]["field"]) == (422, "queue")
    for number in (0, 2**63):
        body = {"priorities": [{"id": number, "priority": 1}]}
        assert operator.post("/transfers/priorities", json=body).status_code == 422


@pytest.mark.parametrize(
    ("part", "changes", "field"),
    [
        ("storages", {"url": "file://"}, "storages[0].url"),
        (
            "queues",
            {"computing_element": {"options": {"directory": 5}}},
            "queues[0].computing_element.options",
        ),
    ],
)
def test_a_federation_that_no_machine_could_use_is_refused(
    operator: TestClient, tmp_path: Path, part: str, changes: dict[str, Any], field: str
) -> None:
    document = to_document(federation(tmp_path))
    document[part][0].update(changes)
    answer = operator.put("/federation", json=document)
    assert (answer.status_code, [fault["field"] for fault in answer.json()["detail"]]) == (422, [field])


def test_a_transfer_is_explained_to_operators_and_to_those_of_its_scope(
    house: House, operator: TestClient, alice: TestClient
) -> None:
    transfer(house, "atlas:data.txt")
    (found,) = operator.get("/transfers").json()["transfers"]
    path = f"/transfers/{found['id']}/explain"
    told = operator.get(path).json()
    assert told["transfer"] == found
    assert told["lines"][0] == f"transfer {found['id']} of atlas:data.txt: queued, attempt 1"
    assert any("20 slots of preparing are held" in line for line in told["lines"])
    assert alice.get(path).status_code == 200
    assert house.as_("user", OTHER_ALICE).get(path).status_code == 404
    assert operator.get("/transfers/999/explain").status_code == 404


def test_progress_tells_what_is_delivered_and_the_counts_of_all(house: House, operator: TestClient) -> None:
    house.commit(Create(records=(File(name="one.txt", size=12, checksum=""),), cause="needed"))
    transfer(house, "one.txt")
    transfer(house, "two.txt")
    (_, first) = operator.get("/transfers").json()["transfers"]
    moved(house.store, *passage([first["id"]], TransferState.QUEUED, TransferState.DELIVERING))
    told = operator.get("/transfers/progress").json()
    assert told["counts"]["queued"] == told["counts"]["delivering"] == 1
    (delivering,) = told["delivering"]
    assert (delivering["file"], delivering["size"], delivering["moved"]) == ("one.txt", 12, None)
