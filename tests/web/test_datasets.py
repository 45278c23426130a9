"""Datasets on the page, and who may read them."""

import re

from pilotage.model.documents.decision import Create
from pilotage.model.records.work import File, Replica
from tests.api.conftest import ALICE, BOB, House

from .conftest import PageHouse, Submit, TestClient
from .test_task import token_of

NAME = "user.alice~atlas:runs/4711"
ADDRESS = "/dataset?dataset=user.alice~atlas%3Aruns%2F4711"


def make_dataset(house: House, task: int) -> None:
    file = "user.alice~atlas:events.root"
    made = (
        File(name=file, size=42_000, checksum="", task=task, job=1),
        Replica(file=file, storage="north-disk"),
    )
    house.commit(Create(records=made, cause="made"))
    body = {"dataset": "runs/4711", "scope": "user.alice~atlas", "files": ["events.root"]}
    assert house.as_("user", ALICE).post("/datasets", json=body).status_code == 200


def test_a_dataset_is_shared_and_revoked(
    house: House, pages: PageHouse, alice: TestClient, submit: Submit
) -> None:
    bob = pages.signed_in("user", BOB)
    make_dataset(house, submit())
    assert NAME in alice.get("/datasets").text
    assert bob.get(ADDRESS).status_code == 403
    page = alice.get(ADDRESS).text
    assert "events.root" in page
    form = {"form_token": token_of(page), "dataset": NAME, "reader": "bob"}
    assert bob.get(ADDRESS.replace("/dataset", "/dataset/grant", 1)).status_code == 403
    answer = alice.post("/dataset/grant", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{ADDRESS}&done=grant")
    assert NAME in bob.get("/datasets").text
    assert "events.root" in bob.get(ADDRESS).text
    assert "Share" not in bob.get(ADDRESS).text
    (revoke,) = re.findall(r'href="(/dataset/revoke[^"]*)"', alice.get(ADDRESS).text)
    fields = dict(
        re.findall(r'type="hidden" name="(\w+)" value="(.*?)"', alice.get(revoke.replace("&amp;", "&")).text)
    )
    assert alice.post("/dataset/revoke", data=fields).status_code == 303
    assert bob.get(ADDRESS).status_code == 403
    for address in ("/datasets", ADDRESS):
        found = re.search(r'href="(/as-json/[^"]*)"', alice.get(address).text)
        assert found
        assert alice.get(found[1].replace("&amp;", "&")).status_code == 200
