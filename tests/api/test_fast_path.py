"""Calls that pilots make most: answered past the framework, and as the framework answers them."""

import json
from typing import Any

import pytest
from fastapi.routing import APIRouter
from fastapi.testclient import TestClient

from .conftest import ALICE, House, Submit

OFFER = {"cores": 1, "memory": 2000, "walltime": 5000, "max_jobs": 1, "node": "n1"}


def post(client: TestClient, path: str, body: Any, kind: str = "application/json") -> tuple[int, Any]:
    text = body if isinstance(body, str) else json.dumps(body)
    answer = client.post(path, content=text, headers={"Content-Type": kind})
    return answer.status_code, answer.json()


def by_the_framework(client: TestClient, path: str, body: Any) -> tuple[int, Any]:
    """The same request under a name of its type that only the framework takes."""
    return post(client, path, body, "application/json; charset=utf-8")


def test_what_pilots_call_most_is_answered_past_the_framework(
    house: House, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = house.activate(submit())
    id_, pilot = house.pilot()

    async def not_this_way(*_: object) -> None:
        raise AssertionError("the framework was asked")

    monkeypatch.setattr(APIRouter, "app", not_this_way)
    monkeypatch.setattr(APIRouter, "__call__", not_this_way)
    status, answer = post(pilot, "/pilot/match", OFFER)
    assert (status, [one["job"] for work in answer["works"] for one in work["jobs"]]) == (200, [job])
    assert post(pilot, "/pilot/report", {"holding": [[job, 1]]}) == (
        200,
        {"stop": [], "read": [], "read_own": False},
    )
    (seen,) = house.store.queries.pilots(None, None, 10)
    assert (seen.id, seen.node) == (id_, "n1")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/pilot/match", OFFER | {"cores": -1}),
        ("/pilot/match", OFFER | {"more": 1}),
        ("/pilot/match", "{"),
        ("/pilot/match", "[]"),
        ("/pilot/match", '{"cores": NaN}'),
        ("/pilot/report", {"holding": [[1]]}),
        ("/pilot/report", {"holding": [[999, 1]]}),
        ("/pilot/report", {"reports": [{"job": 1, "attempt": 1, "state": "sleeping"}]}),
        ("/pilot/report", "null"),
    ],
)
@pytest.mark.parametrize("role", ["pilot", "operator", "enrolment"])
def test_both_ways_answer_alike(unchanged: House, path: str, body: Any, role: Any) -> None:
    id_, pilot = unchanged.pilot()
    client = pilot if role == "pilot" else unchanged.as_(role, ALICE, id_)
    assert post(client, path, body) == by_the_framework(client, path, body)


def test_a_pilot_that_was_given_up_is_told_so_both_ways(house: House) -> None:
    _, pilot = house.pilot()
    pilot.post("/pilot/end", json={"reason": "idle"})
    for path, body in (("/pilot/match", OFFER), ("/pilot/report", {})):
        status, answer = post(pilot, path, body)
        assert status == 410
        assert (status, answer) == by_the_framework(pilot, path, body)
