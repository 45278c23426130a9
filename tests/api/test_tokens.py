"""Tokens of people: listed without themselves, revoked at once, ended by their time."""

from starlette.testclient import TestClient

from pilotage.model.values.freshness import KNOWN_FOR
from pilotage.model.values.identity import Identity

from .conftest import ALICE, House

BOB = {"name": "bob", "vo": "atlas"}


def test_tokens_of_people_are_listed_without_themselves_and_revoked(
    house: House, operator: TestClient
) -> None:
    token = operator.post("/tokens", json=BOB).json()["token"]
    house.pilot()
    bob = house.client(token)
    assert bob.get("/tasks").status_code == 200
    answer = operator.get("/tokens")
    assert token not in answer.text
    listed = {one["name"]: one for one in answer.json()["tokens"]}
    assert set(listed) == {"bob", "olga"}, "pilots' tokens are the server's own affair"
    assert (listed["bob"]["role"], listed["bob"]["vo"], listed["bob"]["expires"]) == ("user", "atlas", None)
    name = listed["bob"]["id"]
    assert operator.delete(f"/tokens/{name}").json()["name"] == "bob"
    assert operator.delete(f"/tokens/{name}").status_code == 404
    house.now += KNOWN_FOR
    assert bob.get("/tasks").status_code == 401
    assert [one["name"] for one in operator.get("/tokens").json()["tokens"]] == ["olga"]


def test_an_expired_token_is_refused_and_listed_no_more(house: House, operator: TestClient) -> None:
    token = operator.post("/tokens", json={**BOB, "expires_in": 60}).json()["token"]
    (listed,) = [one for one in operator.get("/tokens").json()["tokens"] if one["name"] == "bob"]
    assert listed["expires"] is not None
    house.now = listed["expires"]
    assert house.client(token).get("/tasks").status_code == 401


def test_a_pilots_token_cannot_be_revoked_as_a_persons(house: House, operator: TestClient) -> None:
    from hashlib import sha256

    _, pilot = house.pilot(owner=ALICE)
    token = pilot.headers["Authorization"].removeprefix("Bearer ")
    name = sha256(token.encode()).hexdigest()[:12]
    assert operator.delete(f"/tokens/{name}").status_code == 404


def test_a_revoked_operator_makes_no_token_that_outlasts_theirs(house: House) -> None:
    operator = house.as_("operator", Identity(name="oscar"))
    assert operator.post("/tokens", json=BOB).status_code == 201
    house.store.tokens.close(Identity(name="oscar"))
    assert operator.get("/tokens").status_code == 200, "a found token is believed for some seconds"
    assert operator.post("/tokens", json=BOB).status_code == 401
