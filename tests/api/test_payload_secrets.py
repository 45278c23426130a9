"""People set, list and remove secrets of payloads; no answer and no log shows a value."""

import logging
from pathlib import Path

import pytest

from pilotage.flow.outside.secret_keys import FILE, SecretKeys

from .conftest import ALICE, BOB, House, submit_to

WORD = "S3CRET-w0rd"


@pytest.fixture(autouse=True)
def _keys(house: House, tmp_path: Path) -> None:
    house.runtime.secret_keys = SecretKeys(tmp_path / FILE)


def test_a_value_goes_in_and_to_the_pilot_of_its_owners_job_alone(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    alice, bob = house.as_("user", ALICE), house.as_("user", BOB)
    told = [alice.post("/secrets", json={"name": "TOKEN", "value": WORD})]
    assert (told[0].status_code, told[0].json()) == (201, {"name": "TOKEN", "released": []})
    task = submit_to(alice, secrets=["TOKEN"])
    house.activate(task)
    _, pilot = house.pilot()
    offer = {"cores": 1, "memory": 4000, "walltime": 9000, "max_jobs": 1}
    (work,) = pilot.post("/pilot/match", json=offer).json()["works"]
    assert work["secrets"] == [{"value": WORD, "variable": "TOKEN", "file": ""}]
    job = work["jobs"][0]["job"]
    paths = (
        "/secrets",
        f"/tasks/{task}",
        f"/tasks/{task}/explain",
        f"/jobs/{job}",
        f"/jobs/{job}/explain",
        "/world",
    )
    told += [client.get(path) for path in paths for client in (alice, bob, house.as_("operator", ALICE))]
    refused = [
        {"name": "TOKEN", "value": [WORD]},
        {"name": "TOKEN", "value": WORD, "more": WORD},
        {"name": "TOKEN", "value": f"{WORD}\0"},
        {"name": "TOKEN", "value": WORD * 6000},
        {"name": "", "value": WORD},
        {"value": WORD},
    ]
    for body in refused:
        told.append(alice.post("/secrets", json=body))
        assert told[-1].status_code == 422, told[-1].text
    for answer in told:
        assert WORD not in answer.text, (answer.url, answer.text)
    assert WORD not in caplog.text


def test_each_sees_and_removes_their_own(house: House) -> None:
    alice, bob = house.as_("user", ALICE), house.as_("user", BOB)
    assert alice.post("/secrets", json={"name": "TOKEN", "value": "é" * 30_000}).status_code == 201
    (one,) = alice.get("/secrets").json()["secrets"]
    assert one == {"name": "TOKEN", "set_at": one["set_at"]}
    assert bob.get("/secrets").json()["secrets"] == []
    assert bob.delete("/secrets/TOKEN").status_code == 404
    assert alice.delete("/secrets/TOKEN").status_code == 204
    assert alice.delete("/secrets/TOKEN").status_code == 404
    answer = alice.post("/tasks", json={"tasks": [{"name": "w", "command": ["true"], "secrets": ["TOKEN"]}]})
    assert "pilotage secrets set TOKEN" in answer.text


def test_a_server_without_a_home_says_so(house: House) -> None:
    house.runtime.secret_keys = SecretKeys(None)
    answer = house.as_("user", ALICE).post("/secrets", json={"name": "TOKEN", "value": WORD})
    assert answer.status_code == 409
    assert "no home" in answer.text
