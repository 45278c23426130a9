"""Deciding again with changes, and before submission: whole answers, faults by field, nothing touched."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.explain.comparison import WhatIf
from pilotage.flow.calls.work.preview import Preview
from pilotage.model.documents.serialization import from_document, to_document
from pilotage.model.records.federation import Queue
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.identity import Identity

from .conftest import ALICE, BOB, House, Submit
from .test_fuzz import FUZZ, VALUES

FIELDS = st.sampled_from([*TaskSpec.__slots__, "memory", "rm"])
QUEUES = st.sampled_from(["north-queue", "south-queue", "", "nowhere", "\x00"])


def world(house: House) -> Any:
    return to_document(house.store.snapshots.whole(house.now, 1))


def test_a_task_is_decided_again_as_it_is_and_with_changes(house: House, submit: Submit) -> None:
    task = submit(jobs=3)
    jobs = house.activate(task)
    before = world(house)
    body = {"task": {"memory": 9000}, "queues": {"north-queue": {"max_memory": 100}}}
    alice = house.as_("user", ALICE)
    answer = alice.post(f"/tasks/{task}/what-if", json=body)
    assert answer.status_code == 200
    document = answer.json()
    told = [document.pop(name) for name in ("explanations", "lines")]
    found = from_document(WhatIf, document)
    assert (found.time, found.opened, found.closed) == (house.now, (), ("north-queue",))
    assert [(one.field, one.before, one.after) for one in found.changes] == [
        ("memory", 0, 9000),
        ("north-queue.max_memory", 0, 100),
    ]
    assert told[0]["before"][0]["placed"] == {"north-queue": 3}
    assert told[1][0].startswith("with memory 9000 instead of 0")
    (was,), (would,) = found.before, found.after
    assert (was.placed, would.placed) == ({"north-queue": 3}, {})
    assert [refusal.have for refusal in would.refusals if refusal.rule == "B15"] == [(100,)]
    alone = alice.post(f"/jobs/{jobs[1]}/what-if", json=body).json()
    assert [choice["jobs"] for choice in (*alone["before"], *alone["after"])] == [[jobs[1]]] * 2
    assert world(house) == before
    assert "split" in house.woken()


def test_every_fault_of_a_change_is_told_by_field(house: House, submit: Submit) -> None:
    task = submit()
    body = {"task": {"rm": 1, "memory": "x"}, "queues": {"north": {}, "south-queue": {"cores": -1}}}
    answer = house.as_("user", ALICE).post(f"/tasks/{task}/what-if", json=body)
    assert answer.status_code == 422
    assert {fault["field"]: fault["message"] for fault in answer.json()["detail"]} == {
        "rm": "there is no such field; did you mean ram?",
        "memory": "'x' is not a number; give MB, without quotes",
        "north": "there is no such queue; did you mean north-queue?",
        "south-queue.cores": "-1 is below 0; give 0 or more",
    }


def test_what_a_queue_hides_is_not_told_to_users(house: House, submit: Submit) -> None:
    task = submit()
    body = {"queues": {"north-queue": {"computing_element": {"max_pilots": 1}}}}
    text = house.as_("user", ALICE).post(f"/tasks/{task}/what-if", json=body).text
    assert "secret" not in text


def test_no_change_is_an_unexpected_fault(house: House, submit: Submit) -> None:
    task = submit(jobs=2)
    alice = house.as_("user", ALICE)

    @FUZZ
    @given(
        st.dictionaries(FIELDS, VALUES, max_size=3),
        st.dictionaries(
            QUEUES, st.dictionaries(st.sampled_from(Queue.__slots__), VALUES, max_size=2), max_size=2
        ),
    )
    def check(values: dict[str, Any], queues: dict[str, Any]) -> None:
        answer = alice.post(f"/tasks/{task}/what-if", json={"task": values, "queues": queues})
        assert answer.status_code in (200, 422), answer.text

    check()


def test_tasks_are_planned_one_by_one_and_nothing_is_submitted(house: House) -> None:
    before = world(house)
    tasks = [{"name": "a", "jobs": 2}, {"nam": "b"}, {"name": "c", "nucleus": "nowhere"}, {"name": "d"}]
    answer = house.as_("user", BOB).post("/plan/broker", json={"tasks": tasks})
    assert answer.status_code == 200
    document = answer.json()
    assert [(task["index"], task["name"], task["jobs"]) for task in document["tasks"]] == [
        (0, "a", 2),
        (3, "d", 1),
    ]
    assert [choice["placed"] for task in document["tasks"] for choice in task["choices"]] == [
        {"north-queue": 2},
        {"north-queue": 1},
    ]
    faults = [(task["index"], {fault["field"] for fault in task["errors"]}) for task in document["refused"]]
    assert faults == [(1, {"nam", "name"}), (2, {"nucleus"})]
    assert from_document(Preview, {key: document[key] for key in ("time", "seed", "tasks")})
    assert world(house) == before
    assert house.woken() == set()


def test_where_no_task_can_be_planned_the_answer_is_422(house: House) -> None:
    answer = house.as_("user", BOB).post("/plan/broker", json={"tasks": [{"name": "c", "share": "none"}]})
    assert answer.status_code == 422
    assert answer.json()["refused"][0]["errors"][0]["field"] == "share"


@pytest.mark.parametrize("path", ["/tasks/1/what-if", "/jobs/1/what-if"])
def test_a_change_of_something_else_is_refused(house: House, submit: Submit, path: str) -> None:
    house.activate(submit())
    answer = house.as_("operator", Identity(name="olga")).post(path, json={"storages": {}})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["field"] == "storages"
