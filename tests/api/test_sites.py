"""Sites advertise with their own token, and people see what matches (M2, M4)."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.model.values.identity import Identity

from .conftest import House, Submit

AD = '[ CurrentJobs = 3; MaxJobs = 5; Arch = "arm"; Requirements = TARGET.Owner != "bob" ]'


@pytest.fixture
def north(house: House) -> TestClient:
    """A client with the token of the site north."""
    return house.as_("site", Identity(name="north"))


def told(client: TestClient, site: str) -> dict[str, Any]:
    (found,) = [one for one in client.get("/sites").json()["sites"] if one["site"] == site]
    return dict(found)


def test_m2_a_site_sends_its_own_ad_and_no_others(house: House, north: TestClient, alice: TestClient) -> None:
    assert north.put("/sites/north/ad", json={"ad": AD}).status_code == 204
    assert told(alice, "north") == {
        "site": "north",
        "source": "pushed",
        "advertised": house.now,
        "current_jobs": 3,
        "current_submitting_jobs": 0,
        "matched": 0,
        "max_jobs": 5,
        "max_submitting_jobs": None,
        "max_pending_jobs": None,
        "jobs": 0,
        "slots": 0,
        "problem": "",
        "counts_everybody": None,
        "restriction": "",
    }
    refused = north.put("/sites/south/ad", json={"ad": AD})
    assert (refused.status_code, refused.json()["detail"]) == (
        403,
        "this token is of the site north, not of south",
    )
    assert told(alice, "south")["problem"] == "never advertised"


def test_m2_a_bad_ad_is_refused_with_its_place_and_the_last_one_stands(
    north: TestClient, alice: TestClient
) -> None:
    north.put("/sites/north/ad", json={"ad": AD})
    bad = north.put("/sites/north/ad", json={"ad": '[ Requirements = regexp("(a+)+$", A) ]'})
    assert bad.status_code == 422
    (fault,) = bad.json()["detail"]
    assert (fault["field"], fault["message"].partition(";")[0]) == (
        "ad",
        "character 18: regexp() may take for ever",
    )
    assert north.put("/sites/north/ad", json={"ad": "[" + "A" * 30_000}).status_code == 422
    typed = north.put("/sites/north/ad", json={"ad": '[ pendingjobs = "x"; MaxPendingJobs = 5 ]'})
    (fault,) = typed.json()["detail"]
    assert fault["message"] == "character 17: PendingJobs is 'x', no count from 0 to 1000000000"
    assert told(alice, "north")["current_jobs"] == 3


def test_m2_an_ad_that_nobody_renews_matches_nothing(
    house: House, north: TestClient, alice: TestClient
) -> None:
    north.put("/sites/north/ad", json={"ad": AD})
    house.now += 901
    assert told(alice, "north")["problem"] == "advertised 901 s ago, more than 3 periods of 300 s"


def test_m2_what_a_site_sent_stands_until_it_is_forgotten(
    house: House, north: TestClient, alice: TestClient, operator: TestClient
) -> None:
    north.put("/sites/north/ad", json={"ad": AD})
    house.now += 400
    take(step("advertise"), house.runtime, house.runtime.begin(1000))
    assert {name: told(alice, name)["source"] for name in ("north", "south")} == {
        "north": "pushed",
        "south": "native",
    }
    assert operator.delete("/sites/north/ad").status_code == 204
    assert told(alice, "north")["problem"] == "its batch system has not answered yet"
    house.ask_sites()
    assert (told(alice, "north")["source"], told(alice, "north")["current_jobs"]) == ("native", 0)


def test_m2_the_ad_is_told_as_text(north: TestClient, alice: TestClient) -> None:
    north.put("/sites/north/ad", json={"ad": AD})
    text = alice.get("/sites/north/ad").json()["ad"]
    assert 'Arch = "arm";' in text
    assert 'Requirements = (CurMatches < MaxJobs) && (TARGET.Owner != "bob")' in text
    assert alice.get("/sites/nowhere/ad").status_code == 404


def test_m4_what_a_task_matches_is_told_with_what_is_not_true(
    house: House, north: TestClient, alice: TestClient, submit: Submit
) -> None:
    north.put("/sites/north/ad", json={"ad": AD})
    task = submit(site_requirements='TARGET.Arch =?= "arm"', brokerage="matchmaking")
    house.split()
    matches = alice.get(f"/tasks/{task}/sites").json()["matches"]
    assert [(one["queue"], one["rank"]) for one in matches] == [("north-queue", 0.0), ("south-queue", None)]
    assert [part["rule"] for part in matches[1]["refusals"]] == ["M2", "M4"]


def test_m3_a_bad_expression_is_refused_when_it_is_submitted(alice: TestClient) -> None:
    body = {"tasks": [{"name": "t", "site_requirements": "TARGET.A &&", "stations": ["nowhere"]}]}
    answer = alice.post("/tasks", json=body)
    assert answer.status_code == 422
    assert "site_requirements" in answer.text
    assert "character 12: a value was expected, found the end" in answer.text
