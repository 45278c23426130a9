"""Circuit breakers over the API: which have tripped, until when and why, and how an operator lifts them."""

from typing import Any

from pilotage.model.circuit_breakers.storages import FailedDelivery
from pilotage.model.documents.subjects import SUBJECTS
from pilotage.model.records.failures import Failure
from pilotage.model.records.states import PilotState
from pilotage.store import SetAsideRecord
from pilotage.testing.stores import create, move, new_pilot

from .conftest import ALICE, BOB, House

NONE = {"breakers": [], "set_aside": [], "total": 0, "counts": {}, "next": ""}


def fail(house: House, first: int, source: str, destination: str = "", number: int = 3) -> None:
    """So many files fail at an end a moment ago."""
    now = house.runtime.clock()
    told = (
        FailedDelivery(
            transfer=first + at,
            attempt=1,
            file=f"f{first + at}",
            source=source,
            destination=destination,
            time=now,
            error="refused",
        )
        for at in range(number)
    )
    create(house.store, *told, time=now)


def test_f4_people_see_circuit_breakers_of_storages_and_operators_lift_them(house: House) -> None:
    person, operator = house.as_("user", ALICE), house.as_("operator", ALICE)
    fail(house, 10, "north-disk")
    fail(house, 20, "south-disk", "north-disk")
    found = {one["name"]: one["breakers"] for one in person.get("/storages").json()["storages"]}
    assert [one["place"] for one in found["north-disk"]] == [["north-disk", ""], ["south-disk", "north-disk"]]
    (breaker,) = found["south-disk"]
    assert (breaker["failures"], breaker["error"], breaker["state"]) == (3, "refused", "open")
    assert breaker["until"] - breaker["since"] == 60
    assert breaker["reason"] == "3 deliveries failed, one after the other; the last: refused"
    assert (breaker["what"], breaker["rule"]) == ("moving from south-disk to north-disk", "F4")
    assert breaker in person.get("/breakers").json()["breakers"]
    assert person.post("/breakers/lift", json={"name": "south-disk"}).status_code == 403
    assert operator.post("/breakers/lift", json={"name": "none"}).status_code == 404
    assert operator.post("/breakers/lift", json={"name": "south-disk", "kind": "node"}).json() == {
        "lifted": []
    }
    assert operator.post("/breakers/lift", json={"name": "south-disk"}).json() == {"lifted": [breaker]}
    assert operator.post("/breakers/lift", json={"name": "south-disk"}).json() == {"lifted": []}
    left = {one["name"]: len(one["breakers"]) for one in person.get("/storages").json()["storages"]}
    assert left == {"north-disk": 1, "south-disk": 0}
    told = "\n".join(person.get("/queues/north-queue/explain").json()["lines"])
    assert "reading from north-disk: circuit breaker open until" in told


def test_f4_failures_that_tripped_nothing_yet_are_lifted_too(house: House) -> None:
    operator = house.as_("operator", ALICE)
    fail(house, 10, "north-disk", number=2)
    assert operator.post("/breakers/lift", json={"name": "north-disk"}).json() == {"lifted": []}
    fail(house, 20, "north-disk", number=1)
    assert operator.get("/breakers").json() == NONE


def test_p6_a_lifted_breaker_of_a_server_is_closed_at_once(house: House) -> None:
    operator = house.as_("operator", ALICE)
    pilot_fails(house)
    (breaker,) = operator.get("/breakers").json()["breakers"]
    assert (breaker["kind"], breaker["place"]) == ("server", ["north-queue", "door"])
    assert breaker["error"] == "refused by door"
    assert breaker["names"] == ["north-queue", "north-queue/door"]
    (queue, other) = operator.get("/queues").json()["queues"]
    assert (queue["breakers"], other["breakers"]) == ([breaker], [])
    house.now += 1
    house.woken()
    assert operator.post("/breakers/lift", json={"name": "north-queue/door"}).json() == {"lifted": [breaker]}
    assert {"provision", "stage", "broker"} <= house.woken()
    assert operator.get("/breakers").json() == NONE
    house.now += 1
    pilot_fails(house)
    (again,) = operator.get("/breakers").json()["breakers"]
    assert again["failures"] == 1, "what failed before it was lifted counts no more"


def test_f2_a_lifted_breaker_gives_the_queue_jobs_again(house: House) -> None:
    operator, person = house.as_("operator", ALICE), house.as_("user", BOB)
    task = jobs_fail(house)
    found = person.get("/breakers").json()["breakers"]
    assert {(one["kind"], *one["place"], one["task"]) for one in found} == {
        ("queue", "north-queue", "", task),
        ("node", "north-queue", "n1", task),
    }
    assert {one["error"] for one in found} == {"OSError: disk #"}
    told = "\n".join(person.get("/queues/north-queue/explain").json()["lines"])
    assert f"jobs at north-queue/n1 for task {task}: circuit breaker open until" in told
    house.now += 1
    assert len(operator.post("/breakers/lift", json={"name": "n1"}).json()["lifted"]) == 1
    assert operator.get("/breakers").json()["breakers"] == [], "the queue has no other failures"


def test_f2_the_name_of_a_queue_lifts_its_nodes_too(house: House) -> None:
    operator = house.as_("operator", ALICE)
    jobs_fail(house)
    house.now += 1
    assert len(operator.post("/breakers/lift", json={"name": "north-queue"}).json()["lifted"]) == 2
    assert operator.get("/breakers").json() == NONE


def test_f2_people_see_neither_breakers_nor_errors_of_others(house: House) -> None:
    """Bob's breakers name his task and what his payload wrote."""
    jobs_fail(house)
    jobs_fail(house, task=8, owner="carol")
    clients = (house.as_("operator", ALICE), house.as_("user", BOB), house.as_("user", ALICE))
    for client, tasks in zip(clients, ({7, 8}, {7}, set[int]()), strict=True):
        found = client.get("/breakers").json()["breakers"]
        assert {one["task"] for one in found} == tasks
        queues = client.get("/queues").text + client.get("/queues/north-queue/explain").text
        assert {task for task in (7, 8) if f"task {task}" in queues} == tasks
        assert ("disk #" in queues) == bool(tasks)


def pilot_fails(house: House) -> None:
    """A pilot of the north queue's server fails before it calls."""
    pilot = new_pilot(house.store, "north-queue", house.now, site="north", broker="door")
    changes = {"error": "refused by door"}
    house.commit(move("pilot", [pilot], PilotState.CREATED, PilotState.FAILED, changes))


def jobs_fail(house: House, task: int = 7, owner: str = "bob") -> int:
    """Five payloads of a task cannot be started at a node. Returns the task."""
    told = (
        Failure(
            job=10 * task + number,
            attempt=1,
            task=task,
            owner=owner,
            vo="atlas",
            queue="north-queue",
            node="n1",
            pilot=1,
            pilots=1,
            time=house.now,
            lasted=1,
            ending="OSError: disk #",
        )
        for number in range(5)
    )
    create(house.store, *told, time=house.now)
    return task


def test_whatever_is_set_aside_is_told_with_its_reason(house: House) -> None:
    """Every kind of record: those that have no list of their own, too, such as copies and task queues."""
    kinds = {kind: f"some-{kind.replace(' ', '-')}" for kind in [*SUBJECTS, "person", "policy"]}
    told: dict[str, Any] = {
        "error": "ValueError: no such thing",
        "among": 1,
        "since": 1_700_000_000.0,
        "times": 1,
        "retry_at": 1_700_000_010.0,
    }
    house.store.set_aside.replace(
        (), [SetAsideRecord(step="clean", subject=kind, name=name, **told) for kind, name in kinds.items()]
    )
    found = house.as_("operator", ALICE).get("/breakers").json()["set_aside"]
    assert sorted(one["subject"] for one in found) == sorted(f"{k}:{n}" for k, n in kinds.items())
    assert all("by step clean" in one["text"] for one in found)
    assert all("ValueError: no such thing" in one["text"] for one in found)
    others = house.as_("user", ALICE).get("/breakers").json()["set_aside"]
    assert {one["subject"].partition(":")[0] for one in others} == {"queue", "site", "task queue"}
    rows = house.as_("operator", ALICE).get("/stuck").json()["stuck"]
    assert {one["subject"] for one in found} == {one["remark"]["subject"] for one in rows}


def test_pages_lead_on_after_a_person_of_the_longest_name(house: House) -> None:
    for task in (1, 2):
        jobs_fail(house, task, "é" * 1000)
    operator, seen, after = house.as_("operator", ALICE), 0, ""
    while seen == 0 or after:
        page = operator.get("/breakers", params={"limit": 1, "after": after})
        assert page.status_code == 200, page.text
        seen, after = seen + 1, page.json()["next"]
    assert seen == page.json()["total"] > 1
