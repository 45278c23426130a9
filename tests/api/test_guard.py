"""Whatever happens inside, clients get a document that gives nothing away."""

import logging
from collections.abc import Iterator

import pytest

from pilotage.api.guard import LARGEST_BODY

from .conftest import ALICE, House


def test_an_unexpected_fault_is_logged_under_the_number_that_the_client_gets(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the secret of the house")

    client = house.as_("user", ALICE)
    monkeypatch.setattr(house.store, "declared_federation", fail)
    with caplog.at_level(logging.ERROR):
        answer = client.get("/federation")
    assert answer.status_code == 500
    detail = answer.json()["detail"]
    assert "secret" not in answer.text
    number = detail.split()[2].rstrip(";")
    (record,) = [record for record in caplog.records if record.name == "pilotage.api.guard"]
    assert number in record.getMessage()
    assert "the secret of the house" in (record.exc_text or caplog.text)


def test_a_body_that_is_too_large_is_refused_though_it_does_not_say_so(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where the last part was the one too much, there is nothing to wait for.
    monkeypatch.setattr("pilotage.api.guard.DISCARD_TIMEOUT", 3600)

    def parts() -> Iterator[bytes]:
        for _ in range(LARGEST_BODY // 2**20 + 1):
            yield b" " * 2**20

    client = house.as_("user", ALICE)
    for body in (parts(), b" " * (LARGEST_BODY + 1)):
        answer = client.post("/tasks", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
        assert answer.json()["detail"].startswith("the request is larger than 16777216 bytes")


def test_what_is_not_there_is_not_found(house: House) -> None:
    assert house.client().get("/nothing").status_code == 404
    assert house.client().delete("/tasks").status_code == 405
