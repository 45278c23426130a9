"""Submitting, looking at, and cancelling tasks."""

from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.model.records.states import JobState

from .conftest import ALICE, BOB, NOW, House, Submit, submit_to


def test_one_bad_task_does_not_keep_the_others_out(house: House, alice: TestClient) -> None:
    tasks: list[Any] = [
        {"name": "good"},
        {"name": "not a name", "ram": -5, "comand": ["x"]},
        "no task at all",
        {"name": "unknown-queue", "queues": ["nowhere"]},
        {"name": "also-good"},
    ]
    answer = alice.post("/tasks", json={"tasks": tasks})
    assert answer.status_code == 201
    document = answer.json()
    assert [(task["index"], task["name"]) for task in document["tasks"]] == [(0, "good"), (4, "also-good")]
    assert [task["index"] for task in document["refused"]] == [1, 2, 3]
    fields = [[error["field"] for error in task["errors"]] for task in document["refused"]]
    assert sorted(fields[0]) == ["comand", "name", "ram"]
    assert fields[2][0].startswith("queues")
    assert "did you mean command?" in str(document["refused"][0])
    assert "split" in house.woken()
    for task in document["tasks"]:
        assert alice.get(f"/tasks/{task['id']}").json()["name"] == task["name"]


def test_when_every_task_is_refused_so_is_the_submission(house: House, alice: TestClient) -> None:
    answer = alice.post("/tasks", json={"tasks": [{"name": "-"}]})
    assert answer.status_code == 422
    assert answer.json()["tasks"] == []
    assert answer.json()["refused"][0]["errors"][0]["field"] == "name"
    assert house.woken() == set()


def test_the_owner_is_who_the_token_says(alice: TestClient, submit: Submit) -> None:
    task = alice.get(f"/tasks/{submit()}").json()
    assert (task["owner"], task["vo"], task["state"]) == ("alice", "atlas", "registered")
    assert (task["created"], task["error"], task["jobs"]) == (NOW, "", {})
    assert task["spec"]["command"] == ["true"]


def test_faults_of_a_request_name_its_fields(alice: TestClient) -> None:
    for body, field in (({}, "tasks"), ({"tasks": []}, "tasks"), ({"tasks": [{}], "more": 1}, "more")):
        answer = alice.post("/tasks", json=body)
        assert answer.status_code == 422
        assert [fault["field"] for fault in answer.json()["detail"]] == [field]
    answer = alice.get("/tasks", params={"limit": 0, "state": "odd"})
    assert {fault["field"] for fault in answer.json()["detail"]} == {"limit", "state"}
    assert "Input should" not in answer.text


def test_what_is_not_json_is_refused_with_its_place(alice: TestClient) -> None:
    answer = alice.post("/tasks", content=b'{"tasks": [', headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert set(answer.json()["detail"][0]) == {"field", "message"}


def test_tasks_are_listed_newest_first_in_pages(alice: TestClient, submit: Submit) -> None:
    ids = [submit() for _ in range(3)]
    listed = alice.get("/tasks", params={"limit": 2}).json()["tasks"]
    assert [task["id"] for task in listed] == [ids[2], ids[1]]
    rest = alice.get("/tasks", params={"after": ids[1]}).json()["tasks"]
    assert [task["id"] for task in rest] == [ids[0]]
    assert alice.get("/tasks", params={"state": "finished"}).json()["tasks"] == []


def test_tasks_are_found_by_name_owner_and_site(house: House, alice: TestClient, submit: Submit) -> None:
    fits = [submit(name="fit-1"), submit(name="fit_2")]
    sim = submit(name="FIT-3")
    bobs = submit_to(house.as_("user", BOB), name="fit-1")
    house.activate(fits[0])

    def ids(client: TestClient = alice, **params: Any) -> list[int]:
        return [task["id"] for task in client.get("/tasks", params=params).json()["tasks"]]

    assert ids(name="fit*") == fits[::-1]
    assert ids(name="fit_?") == fits[1:]
    assert ids(name="*T-3") == [sim]
    assert ids(name="fit-1", limit=1) == fits[:1]
    assert ids(site="north") == fits[:1]
    assert ids(site="south") == []
    operator = house.as_("operator", ALICE)
    assert ids(operator, name="fit-1") == [bobs, fits[0]]
    assert ids(operator, name="fit-1", mine=True) == fits[:1]
    assert ids(operator, owner="bob") == [bobs]
    assert ids(owner="bob") == []
    labelled = submit(labels={"campaign": "Ünö 1", "day": ""})
    assert alice.get(f"/tasks/{labelled}").json()["labels"] == {"campaign": "Ünö 1", "day": ""}
    assert ids(label=["campaign=Ünö 1", "day="]) == [labelled]
    assert ids(label=["campaign=Ünö 1", "day=1"]) == []
    assert alice.get("/tasks", params={"label": ["a"] * 21}).status_code == 422
    assert alice.get("/tasks", params={"site": "nowhere"}).status_code == 404
    assert alice.get("/tasks", params={"name": "a\0"}).status_code == 422


@pytest.mark.parametrize(
    "labels", [{"a b": "1"}, {"": "1"}, {"a": "x" * 201}, {"a": "1\n"}, {"a=b": "1"}, {"a": 1}, ["a"]]
)
def test_labels_are_bounded(alice: TestClient, labels: Any) -> None:
    for wrong in (labels, {f"n{number}": "" for number in range(21)}):
        answer = alice.post("/tasks", json={"tasks": [{"name": "t", "labels": wrong}]})
        assert (answer.status_code, "labels" in answer.text) == (422, True)


def test_jobs_are_listed_by_id_in_pages(house: House, alice: TestClient, submit: Submit) -> None:
    task = submit(jobs=3)
    house.split()
    jobs = alice.get(f"/tasks/{task}/jobs").json()["jobs"]
    assert [job["state"] for job in jobs] == ["defined"] * 3
    ids = [job["id"] for job in jobs]
    assert ids == sorted(ids)
    page = alice.get(f"/tasks/{task}/jobs", params={"after": ids[0], "limit": 1}).json()["jobs"]
    assert [job["id"] for job in page] == [ids[1]]
    assert alice.get(f"/tasks/{task}/jobs", params={"state": "running"}).json()["jobs"] == []
    assert alice.get(f"/tasks/{task}").json()["jobs"] == {"defined": 3}


def test_a_job_tells_its_history(house: House, alice: TestClient, submit: Submit) -> None:
    (job,) = house.activate(submit())
    document = alice.get(f"/jobs/{job}").json()
    assert (document["state"], document["queue"], document["site"]) == ("activated", "north-queue", "north")
    assert [(event["source"], event["target"]) for event in document["events"]] == [
        (None, "defined"),
        ("defined", "activated"),
    ]
    assert document["events"][1]["cause"] == "brokered"
    assert document["events"][1]["actor"] == "test"


def test_a_cancelled_task_takes_its_jobs_along(house: House, alice: TestClient, submit: Submit) -> None:
    task = submit(jobs=2)
    jobs = house.activate(task)
    answer = alice.post(f"/tasks/{task}/cancel")
    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["jobs"]) == ("cancelled", {"cancelled": 2})
    assert {house.job(job).state for job in jobs} == {JobState.CANCELLED}
    assert alice.get(f"/jobs/{jobs[0]}").json()["events"][-1]["actor"] == "user:alice"
    again = alice.post(f"/tasks/{task}/cancel")
    assert (again.status_code, again.json()["state"]) == (200, "cancelled")


def test_the_pilot_of_a_cancelled_task_is_told_to_stop(
    house: House, alice: TestClient, submit: Submit
) -> None:
    task = submit()
    (job,) = house.activate(task)
    _, pilot = house.pilot()
    offer = {"cores": 1, "memory": 1000, "walltime": 1000, "max_jobs": 1}
    assert len(pilot.post("/pilot/match", json=offer).json()["works"]) == 1
    assert pilot.post("/pilot/report", json={"holding": [[job, 1]]}).json()["stop"] == []
    alice.post(f"/tasks/{task}/cancel")
    assert pilot.post("/pilot/report", json={"holding": [[job, 1]]}).json()["stop"] == [[job, 1]]


def test_ids_beyond_any_store_are_refused(alice: TestClient) -> None:
    for number in (0, -1, 2**63):
        assert alice.get(f"/tasks/{number}").status_code == 422


def test_without_a_federation_nothing_is_accepted(tmp_path: Any) -> None:
    from pilotage.store import Store

    house = House(Store.open(f"sqlite:///{tmp_path / 'empty.db'}"))
    answer = house.as_("user", ALICE).post("/tasks", json={"tasks": [{"name": "work"}]})
    assert answer.status_code == 409
    assert "no federation" in answer.json()["detail"]
    house.store.close()


def test_a_whole_submission_is_accepted_whole_or_not_at_all(house: House, alice: TestClient) -> None:
    good: dict[str, Any] = {"name": "good"}
    for bad in ({"name": "-"}, {"name": "lost", "queues": ["nowhere"]}):
        answer = alice.post("/tasks", json={"tasks": [good, bad, {**good, "share": "none"}], "whole": True})
        assert answer.status_code == 422
        assert [task["index"] for task in answer.json()["refused"]] == [1, 2]
    assert (alice.get("/tasks").json()["tasks"], house.woken()) == ([], set())
    answer = alice.post("/tasks", json={"tasks": [good, good], "whole": True})
    assert (answer.status_code, len(answer.json()["tasks"])) == (201, 2)


@pytest.mark.slow
def test_a_submission_has_a_thousand_tasks_and_as_many_faults_at_most(alice: TestClient) -> None:
    bad = {"name": "-", "queues": ["-"] * 50}
    answer = alice.post("/tasks", json={"tasks": [bad] * 1000})
    assert answer.status_code == 422
    assert [len(task["errors"]) for task in answer.json()["refused"]] == [1] * 1000
    answer = alice.post("/tasks", json={"tasks": [bad] * 3})
    assert [len(task["errors"]) for task in answer.json()["refused"]] == [51] * 3
    answer = alice.post("/tasks", json={"tasks": [bad] * 1001})
    ((fault,),) = [answer.json()["detail"]]
    assert (answer.status_code, fault["field"]) == (422, "tasks")
    assert "1000" in fault["message"]


@pytest.mark.parametrize("number", [-1, 2**63, 10**30])
def test_numbers_in_a_query_that_no_store_holds_are_refused(
    alice: TestClient, submit: Submit, number: int
) -> None:
    for path, name in (("/tasks", "after"), (f"/tasks/{submit()}/jobs", "after")):
        answer = alice.get(path, params={name: number})
        assert answer.status_code == 422
        assert [fault["field"] for fault in answer.json()["detail"]] == [name]


def test_a_throttled_job_is_told_by_which_quota_and_what_releases_it(house: House, submit: Submit) -> None:
    """By the task's state and by `explain` of task and job (T)."""
    known = house.store.federation()
    house.store.save_federation(replace(known, quotas=replace(known.quotas, jobs_by_user=1)), "test")
    task = submit(jobs=3)
    take(step("split"), house.runtime, house.runtime.begin(1000))
    person = house.as_("user", ALICE)
    found = person.get(f"/tasks/{task}").json()
    assert found["jobs"]["throttled"] == 2
    reason = "user alice has 1 live job, and may have 1 (quotas.jobs_by_user); each of these that ends"
    assert reason in " ".join(one["text"] for one in found["remarks"])
    assert reason in " ".join(person.get(f"/tasks/{task}/explain").json()["lines"])
    jobs = person.get(f"/tasks/{task}/jobs").json()["jobs"]
    last = max(job["id"] for job in jobs)
    assert reason in " ".join(person.get(f"/jobs/{last}/explain").json()["lines"])
