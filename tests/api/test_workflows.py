"""Workflows in the API: all or none, seen by their owner, and explained."""

from typing import Any

from pilotage.model.values.identity import Identity

from .conftest import ALICE, BOB, OTHER_ALICE, House

COMMAND = {"command": ["x"], "outputs": ["out"], "scouts": 0}
TASKS: list[dict[str, Any]] = [
    {"name": "align", **COMMAND},
    {"name": "call", **COMMAND, "inputs": [{"task": "align", "match": "*.bam"}]},
    {"name": "report", **COMMAND, "after": ["call", "align"], "on": "end"},
]


def test_a_workflow_is_made_listed_shown_and_explained(house: House) -> None:
    client = house.as_("user", ALICE)
    made = client.post("/workflows", json={"name": "flow", "tasks": TASKS})
    assert made.status_code == 201
    body = made.json()
    assert ([task["name"] for task in body["tasks"]], body["refused"]) == (["align", "call", "report"], [])
    align, call, report = (task["id"] for task in body["tasks"])
    (listed,) = client.get("/workflows", params={"name": "flow"}).json()["workflows"]
    assert (listed["id"], listed["tasks"]) == (body["id"], {"registered": 1, "waiting": 2})
    assert client.get("/workflows", params={"name": "other"}).json()["workflows"] == []
    shown = client.get(f"/workflows/{body['id']}").json()
    assert [task["id"] for task in shown["tasks"]] == [align, call, report]
    assert [one["task"] for one in shown["tasks"][2]["predecessors"]] == [align, call]
    (first, second) = shown["remarks"]
    assert (first["subject"], second["subject"]) == (f"task:{call}", f"task:{report}")
    assert first["text"] == f"it waits: task {align} (align) is waiting"
    lines = client.get(f"/workflows/{body['id']}/explain", params={"width": 80}).json()["lines"]
    assert lines[0] == f"workflow {body['id']} flow: 3 waiting"
    assert max(map(len, lines)) <= 80
    assert f"{align} align, {call} call (any end)" in lines[-1]
    task = client.get(f"/tasks/{call}").json()
    (remark,) = task["remarks"]
    assert (task["workflow"], remark["kind"]) == (body["id"], "wait")
    assert remark["text"] == f"it waits: task {align} (align) is waiting"


def test_what_a_failed_task_holds_is_told_at_every_task_behind_it(house: House) -> None:
    client = house.as_("user", ALICE)
    tasks = [TASKS[0], TASKS[1], {"name": "last", **COMMAND, "after": ["call"]}]
    body = client.post("/workflows", json={"name": "flow", "tasks": tasks}).json()
    align, call, last = (task["id"] for task in body["tasks"])
    client.post(f"/tasks/{align}/cancel")
    held = client.get(f"/tasks/{last}").json()
    (blocked,) = held["remarks"]
    assert (blocked["kind"], blocked["text"]) == (
        "blocked",
        f"it is held: before it, task {align} (align) was cancelled; pilotage retry {align} runs that again",
    )
    lines = client.get(f"/workflows/{body['id']}/explain").json()["lines"]
    assert any(line.startswith(f"task {call} (call): it is held: task {align}") for line in lines)


def test_a_workflow_with_a_circle_is_refused_with_its_path(house: House) -> None:
    client = house.as_("user", ALICE)
    tasks = [{"name": "a", "after": ["b"]}, {"name": "b", "after": ["a"]}]
    answer = client.post("/workflows", json={"name": "flow", "tasks": tasks})
    assert answer.status_code == 422
    ((refused),) = answer.json()["refused"]
    assert refused["errors"][0]["field"] == "after[0]"
    assert "a -> b -> a" in refused["errors"][0]["message"]
    assert client.get("/workflows").json()["workflows"] == []


def test_the_same_key_makes_one_workflow(house: House) -> None:
    client = house.as_("user", ALICE)
    headers = {"Idempotency-Key": "k"}
    first, second = (
        client.post("/workflows", json={"name": "flow", "tasks": TASKS}, headers=headers).json()
        for _ in range(2)
    )
    assert (first["id"], first["tasks"]) == (second["id"], second["tasks"])
    assert len(client.get("/workflows").json()["workflows"]) == 1


def test_somebody_elses_workflow_is_as_if_it_were_not_there(house: House) -> None:
    made = house.as_("user", ALICE).post("/workflows", json={"name": "flow", "tasks": TASKS}).json()
    for stranger in (BOB, OTHER_ALICE, Identity(name="alice")):
        client = house.as_("user", stranger)
        for path in ("", "/explain"):
            theirs, nobodys = (client.get(f"/workflows/{id_}{path}") for id_ in (made["id"], 999))
            assert (theirs.status_code, nobodys.status_code) == (404, 404)
            assert theirs.json()["detail"].replace(str(made["id"]), "999") == nobodys.json()["detail"]
        assert client.get("/workflows").json()["workflows"] == []
    operator = house.as_("operator", Identity(name="olga"))
    assert operator.get(f"/workflows/{made['id']}").status_code == 200
