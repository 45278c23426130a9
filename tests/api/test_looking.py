"""Whatever only looks changes no row of the store; a test of a queue adds one pilot, once."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select
from starlette.testclient import TestClient

from pilotage.store.database.columns import metadata

from .conftest import House, Submit
from .test_access import CLOSED
from .test_strangers import IN_PATHS, PLACES

TASK = {"name": "imagined", "command": ["true"], "ram": 100, "walltime": 60}
LOOKS = (
    *(("GET", path) for method, path in sorted(CLOSED) if method == "GET" and path != "/events"),
    ("POST", "/plan/broker"),
    ("POST", "/tasks/{task}/what-if"),
    ("POST", "/jobs/{job}/what-if"),
)
BOOKS = {"counters", "events", "meanings", "numbers"}
"""Tables that say of other tables' rows what they say themselves."""


def rows(house: House) -> dict[str, list[Any]]:
    """Everything in the store but the audit of who did what, by table."""

    def read(connection: Connection) -> dict[str, list[Any]]:
        tables = metadata.tables.items()
        return {
            name: sorted(connection.execute(select(table)).all(), key=repr)
            for name, table in tables
            if "audit" not in name
        }

    return house.store.database.read(read)


def changed(before: Mapping[str, list[Any]], after: Mapping[str, list[Any]]) -> dict[str, int]:
    """How many rows are there more, by table, where any is another one."""
    return {name: len(after[name]) - len(before[name]) for name in before if before[name] != after[name]}


def test_no_request_that_looks_changes_the_store(house: House, operator: TestClient, submit: Submit) -> None:
    house.activate(submit(jobs=2))
    house.pilot()
    operator.get("/tasks")  # the store keeps when a token is used, within an hour
    before, answered = rows(house), 0
    for method, path in LOOKS:
        body = {"tasks": [TASK]} if path == "/plan/broker" else {} if method == "POST" else None
        answer = operator.request(method, path.format(**IN_PATHS, **PLACES), json=body)
        answered += answer.is_success
        assert changed(before, rows(house)) == {}, path
    assert answered > 30


def test_a_test_of_a_queue_sends_one_pilot_and_changes_nothing_else(
    house: House, operator: TestClient, submit: Submit
) -> None:
    """A closed queue stays closed, its circuit breakers and the jobs that wait stay as they are."""
    house.activate(submit(jobs=2))
    put = operator.put("/restrictions/queue/north-queue", json={"mode": "close", "because": "broken"})
    assert put.is_success, put.text
    operator.get("/tasks")
    before = rows(house)
    first = operator.post("/queues/north-queue/test").json()["pilot"]
    differences = changed(before, rows(house))
    assert {name: count for name, count in differences.items() if name not in BOOKS} == {"pilots": 1}
    assert operator.post("/queues/north-queue/test").json()["pilot"] == first, "while one is under way"
    assert changed(before, rows(house)) == differences
