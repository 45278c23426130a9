"""Tokens of people: listed without themselves, revoked at once, ended by their time."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from pilotage.model.values.durations import KNOWN_FOR
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


def test_lists_of_tokens_restrictions_and_secrets_come_in_pages(house: House, operator: TestClient) -> None:
    for number in range(4):
        house.now += 1
        operator.post("/tokens", json={"name": f"bob{number}"})
    for name in ("NORTH", "SOUTH"):
        operator.put(f"/restrictions/site/{name}", json={"mode": "drain", "because": "repairs"})
    assert pages(operator, "tokens") == ["bob3", "bob2", "bob1", "bob0", "olga"]
    assert pages(operator, "restrictions") == [
        one["name"] for one in operator.get("/restrictions").json()["restrictions"]
    ]
    assert pages(operator, "secrets") == []
    assert operator.get("/tokens?after=zzz").json()["tokens"] == []


def pages(client: TestClient, name: str) -> list[str]:
    """The names of a list's rows, read in pages of two."""
    found: list[str] = []
    after = ""
    while True:
        page = client.get(f"/{name}", params={"limit": 2, "after": after}).json()
        assert len(page[name]) <= 2
        found += [one["name"] for one in page[name]]
        if not (after := page["next"]):
            assert page["total"] == len(found)
            return found


@pytest.mark.parametrize("field", ["name", "vo", "group", "vo_role"])
@pytest.mark.parametrize(
    "name", ["alice~atlas", "a=b", "a:b", "al\u202eice", "al\u200bice", "a\tb", "a ", "\u00a0a"]
)
def test_a_name_that_could_pass_for_another_gets_no_token(
    operator: TestClient, field: str, name: str
) -> None:
    """``alice~atlas`` had the scope ``user.alice~atlas`` of the alice of atlas."""
    answer = operator.post("/tokens", json={"name": "alice", field: name})
    assert (answer.status_code, answer.json()["detail"][0]["field"]) == (422, field)
    assert operator.post("/tokens", json={"name": "Zoë O'Hara-Šimić, 2nd", "vo": "at.las"}).status_code == 201


def test_an_expired_token_is_refused_and_listed_no_more(house: House, operator: TestClient) -> None:
    token = operator.post("/tokens", json={**BOB, "expires_in": 60}).json()["token"]
    (listed,) = [one for one in operator.get("/tokens").json()["tokens"] if one["name"] == "bob"]
    assert listed["expires"] is not None
    house.now = listed["expires"]
    assert house.client(token).get("/tasks").status_code == 401


def test_a_rotated_token_has_an_heir_and_ends_after_the_overlap(house: House, operator: TestClient) -> None:
    body = {**BOB, "expires_in": 86_400, "purpose": "nightly calibration"}
    old = operator.post("/tokens", json=body).json()["token"]
    (listed,) = [token for token in operator.get("/tokens").json()["tokens"] if token["name"] == "bob"]
    path = f"/tokens/{listed['id']}/rotate"
    new = operator.post(path, json={"overlap": 600}).json()["token"]
    assert house.client(old).get("/whoami").json()["name"] == "bob"
    (heir, _) = [token for token in operator.get("/tokens").json()["tokens"] if token["name"] == "bob"]
    assert heir["id"] != listed["id"]
    assert heir["purpose"] == "nightly calibration"
    assert heir["expires"] - heir["created"] == listed["expires"] - listed["created"]
    house.now += 600
    assert house.client(old).get("/tasks").status_code == 401
    assert house.client(new).get("/tasks").status_code == 200
    assert operator.post(f"/tokens/{'0' * 12}/rotate", json={}).status_code == 404
    assert operator.post(f"/tokens/{heir['id']}/rotate", json={"overlap": -1}).status_code == 422


def test_the_last_use_of_a_token_is_kept_within_an_hour(house: House, operator: TestClient) -> None:
    bob = house.client(operator.post("/tokens", json=BOB).json()["token"])

    def last_use() -> float | None:
        (listed,) = [token for token in operator.get("/tokens").json()["tokens"] if token["name"] == "bob"]
        used: float | None = listed["used"]
        return used

    assert last_use() is None
    bob.get("/tasks")
    first = last_use()
    assert first == house.now
    house.now += 1800
    bob.get("/tasks")
    assert last_use() == first
    house.now += 1801
    bob.get("/tasks")
    assert last_use() == house.now


def test_a_pilots_token_cannot_be_revoked_as_a_persons(house: House, operator: TestClient) -> None:
    from hashlib import sha256

    _, pilot = house.pilot(owner=ALICE)
    token = pilot.headers["Authorization"].removeprefix("Bearer ")
    name = sha256(token.encode()).hexdigest()[:12]
    assert operator.delete(f"/tokens/{name}").status_code == 404


def test_a_revoked_operator_does_nothing_that_outlasts_their_token(house: House) -> None:
    oscar = Identity(name="oscar")
    lasting: list[tuple[str, str, Any]] = [
        ("POST", "/tokens", BOB),
        ("DELETE", f"/tokens/{'0' * 12}", None),
        ("POST", "/people/close", {"name": "bob", "because": "left"}),
        ("PUT", "/federation", house.as_("operator", oscar).get("/federation").json()),
        ("POST", "/federation/rollback", {"version": 1, "because": "x"}),
        ("POST", "/storages/south-disk/move", {"to": "north-disk"}),
    ]
    for method, path, body in lasting:
        operator = house.as_("operator", oscar)
        assert operator.request(method, path, json=body).status_code not in (401, 403), path
        house.store.tokens.close(oscar)
        assert operator.get("/tokens").status_code == 200, "a found token is believed for some seconds"
        assert operator.request(method, path, json=body).status_code == 401, path
