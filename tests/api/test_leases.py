"""Tasks with a lease: renewed they live, else they end in time for whoever gives their work to others."""

from typing import Any

import pytest

from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.model.records.states import TaskState
from pilotage.model.rules.timeouts import lease_of

from .conftest import ALICE, House


def unheard(house: House) -> float:
    """The s that pilots of this house may run on after a task was cancelled."""
    federation = house.store.federation()
    return 1.1 * lease_of(federation.timeouts, "") + 2 * federation.loops.period


def submitted(house: House, **more: Any) -> int:
    answer = house.as_("user", ALICE).post("/tasks", json={"tasks": [{"name": "work"}]} | more)
    assert answer.status_code == 201, answer.text
    number: int = answer.json()["tasks"][0]["id"]
    return number


def state(house: House, task: int) -> TaskState:
    take(step("watch"), house.runtime, house.runtime.begin(100))
    found = house.store.queries.task(task)
    assert found is not None
    return found.state


def test_m1_a_task_whose_lease_is_not_renewed_is_cancelled_in_time(house: House) -> None:
    leased, other = submitted(house, lease=20_000), submitted(house)
    end = house.now + 20_000 - unheard(house)
    house.now = end - 1
    assert state(house, leased) == TaskState.REGISTERED
    answer = house.as_("user", ALICE).post(f"/tasks/{leased}/renew", json={"lease": 20_000})
    assert answer.json()["state"] == "registered"
    house.now = end + 1
    assert state(house, leased) == TaskState.REGISTERED
    house.now = end - 1 + 20_000 - unheard(house)
    assert state(house, leased) == TaskState.CANCELLED
    assert state(house, other) == TaskState.REGISTERED
    found = house.store.queries.task(leased)
    assert found is not None
    assert "lease" in found.error


@pytest.mark.parametrize("path", ["/tasks", "/tasks/{task}/renew"])
def test_m1_a_lease_that_pilots_here_may_outlive_is_refused(house: House, path: str) -> None:
    task = submitted(house)
    body = {"lease": unheard(house) - 1} | ({} if "renew" in path else {"tasks": [{"name": "work"}]})
    answer = house.as_("user", ALICE).post(path.format(task=task), json=body)
    assert answer.status_code == 422
    assert [fault["field"] for fault in answer.json()["detail"]] == ["lease"]
    assert "may run on for" in answer.json()["detail"][0]["message"]


def test_tasks_of_a_request_are_found_by_its_key(house: House) -> None:
    client = house.as_("user", ALICE)
    submitted(house)
    body = {"tasks": [{"name": "a"}, {"name": "b"}]}
    made = client.post("/tasks", json=body, headers={"Idempotency-Key": "k"}).json()["tasks"]
    found = client.get("/tasks", params={"key": "k"}).json()["tasks"]
    assert [one["id"] for one in found] == [one["id"] for one in made]
    assert client.get("/tasks", params={"key": "other"}).json()["tasks"] == []
    assert house.as_("operator", ALICE).get("/tasks", params={"key": "k"}).json()["tasks"] == found
