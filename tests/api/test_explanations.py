"""Stored decisions, analysed and as text."""

from typing import Any

from pilotage.flow import planning

from .conftest import ALICE, House, Submit


def brokered(house: House, submit: Submit, **spec: Any) -> int:
    task: int = submit(**spec)
    house.split()
    world = house.store.snapshots.for_broker(house.now, 1, limit=100)
    house.store.commit(planning.plan("broker", world), "broker:production")
    return task


def test_a_task_is_explained_with_its_analysis_and_in_lines(house: House, submit: Submit) -> None:
    task = brokered(house, submit, jobs=2)
    alice = house.as_("user", ALICE)
    found = alice.get(f"/tasks/{task}/explain").json()
    assert found["task"]["id"] == task
    assert [one["placed"] for one in found["explanations"]] == [one["placed"] for one in found["choices"]]
    assert found["lines"][0].startswith(f"task {task}, jobs ")
    narrow = alice.get(f"/tasks/{task}/explain", params={"width": 60}).json()["lines"]
    assert all(len(line) <= 60 for line in narrow)
    assert " ".join(narrow).split() == " ".join(found["lines"]).split()


def test_a_job_is_explained_with_what_happened_to_it(house: House, submit: Submit) -> None:
    task = brokered(house, submit, jobs=1)
    alice = house.as_("user", ALICE)
    (job,) = alice.get(f"/tasks/{task}/jobs").json()["jobs"]
    found = alice.get(f"/jobs/{job['id']}/explain").json()
    assert found["lines"][0] == f"job {job['id']} of task {task}: activated at north-queue, attempt 1"
    assert " defined: " in found["lines"][1]
    assert found["job"]["id"] == job["id"]
    assert len(found["explanations"]) == len(found["choices"]) == 1


def test_a_task_that_no_brokerage_has_seen_is_said_to_be_one(house: House, submit: Submit) -> None:
    task = submit(jobs=1)
    lines = house.as_("user", ALICE).get(f"/tasks/{task}/explain").json()["lines"]
    assert lines == [f"task {task} is registered: no brokerage has decided about it yet"]
