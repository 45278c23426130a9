"""Calls that pilots make most: answered without the framework, and as the framework would answer them."""

import json
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient
from starlette.applications import Starlette

from pilotage.server.api import PREFIX

from .conftest import ALICE, House, Submit

OFFER = {"cores": 1, "memory": 2000, "walltime": 5000, "max_jobs": 1, "node": "n1"}


def post(client: TestClient, path: str, body: Any, kind: str = "application/json") -> tuple[int, Any]:
    text = body if isinstance(body, str) else json.dumps(body)
    answer = client.post(path, content=text, headers={"Content-Type": kind})
    return answer.status_code, answer.json()


def by_the_framework(client: TestClient, path: str, body: Any) -> tuple[int, Any]:
    """The same request by the route that documents it."""
    plain = cast(Starlette, client.app).state.plain_routes
    route = plain.pop(f"{PREFIX}{path}")
    try:
        return post(client, path, body)
    finally:
        plain[f"{PREFIX}{path}"] = route


def test_what_pilots_call_most_is_answered_without_the_framework(
    house: House, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = house.activate(submit())
    id_, pilot = house.pilot()

    async def not_this_way(**_: object) -> None:
        raise AssertionError("the framework was asked")

    monkeypatch.setattr("fastapi.routing.solve_dependencies", not_this_way)
    assert by_the_framework(pilot, "/pilot/match", OFFER)[0] == 500
    status, answer = post(pilot, "/pilot/match", OFFER)
    assert (status, [one["job"] for work in answer["works"] for one in work["jobs"]]) == (200, [job])
    status, answer = post(pilot, "/pilot/report", {"holding": [[job, 1]]})
    assert (status, answer["stop"]) == (200, [])
    (seen,) = house.store.queries.pilots(None, None, 10)
    assert (seen.id, seen.node) == (id_, "n1")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/pilot/match", OFFER | {"cores": -1}),
        ("/pilot/match", OFFER | {"more": 1}),
        ("/pilot/match", '{"cores": NaN}'),
        ("/pilot/report", {"holding": [[1]]}),
        ("/pilot/report", {"holding": [[999, 1]]}),
        ("/pilot/report", {"reports": [{"job": 1, "attempt": 1, "state": "sleeping"}]}),
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


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("application/problem+json", 200),
        ("text/plain", 415),
        ("", 415),
    ],
)
def test_a_body_is_json_by_any_of_its_names(house: House, kind: str, status: int) -> None:
    _, pilot = house.pilot()
    told, answer = post(pilot, "/pilot/report", {}, kind)
    assert told == status
    assert status == 200 or "Content-Type" in answer["detail"]


@pytest.mark.parametrize("body", ["", "{", "[]", "null", "[1,", '"\\ud800', "nul"])
def test_what_is_no_json_object_is_refused_in_a_sentence(house: House, body: str) -> None:
    _, pilot = house.pilot()
    status, answer = post(pilot, "/pilot/report", body)
    assert status == 422
    assert answer["detail"][0]["message"]
