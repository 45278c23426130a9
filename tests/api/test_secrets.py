"""Whatever a federation of before, a request or a token holds: no route and no log shows a secret."""

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from pilotage.model.documents.serialization import to_document
from pilotage.model.records.federation import Federation, TransferService
from pilotage.model.values.identity import Identity
from pilotage.server.api import PREFIX
from pilotage.server.api.administration import health
from pilotage.server.api.app import ROUTERS

from .conftest import ALICE, House, Submit, federation

SECRET = "S3CRET-w0rd"
URL = f"https://ada:{SECRET}@dav.example.org:8443/data"


def with_secrets(made: Federation) -> Federation:
    """The federation with a password in each URL that earlier releases took."""
    service = TransferService(url=f"https://{SECRET}@fts.example.org", options={"token_file": "/none"})
    first, second = made.storages
    return replace(
        made,
        sites=tuple(replace(site, monitoring_url=URL) for site in made.sites),
        storages=(
            replace(first, url=URL, transfer_service=service),
            replace(second, url=f"s3://a:{SECRET}@b"),
        ),
    )


@pytest.fixture
def old(house: House, tmp_path: Path, submit: Submit) -> House:
    """A house whose federation was stored when URLs with passwords were still taken, with a task."""
    house.store.save_federation(with_secrets(federation(tmp_path)), "earlier")
    house.activate(submit(outputs=["out.txt"], command=["true"]))
    return house


def read_routes() -> list[str]:
    """Return the paths of all routes that read, each with 1 as every parameter."""
    found = {
        route.path
        for room in (*ROUTERS, health)
        for route in room.router.routes
        if isinstance(route, APIRoute) and "GET" in (route.methods or ())
    }
    return sorted(re.sub(r"\{[^}]+\}", "1", path.removeprefix(PREFIX)) for path in found)


@pytest.mark.endurance
def test_no_route_answers_a_password_that_a_stored_url_holds(
    old: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    _, pilot = old.pilot()
    people = [old.as_("operator", Identity(name="olga")), old.as_("user", ALICE), pilot, old.client()]
    offer = {"cores": 1, "memory": 4000, "walltime": 9000, "max_jobs": 1}
    answers = [pilot.post("/pilot/match", json=offer)]
    assert answers[0].status_code == 200, answers[0].text
    asked = 0
    for person in people:
        for path in read_routes():
            if "events" not in path and "stream" not in path:
                answers.append(person.get(path, params={"file": "x", "dataset": "y"}))
                asked += answers[-1].status_code == 200
    assert asked > 20
    for answer in answers:
        assert SECRET not in answer.text, answer.url
    logged = caplog.text + "".join(record.getMessage() for record in caplog.get_records("setup"))
    assert SECRET not in logged
    # What has to be mended is said by its name.
    assert "the storage north-disk: its URL holds a user or password" in logged


def places() -> dict[str, Callable[[Any], None]]:
    """Ways to put a secret into a federation's document, each at a place where one may stand."""

    def storage(**fields: Any) -> Callable[[Any], None]:
        return lambda document: document["storages"][0].update(fields)

    def element(**fields: Any) -> Callable[[Any], None]:
        return lambda document: document["queues"][0]["computing_element"].update(fields)

    dav = "https://dav.example.org/"
    return {
        "URL of a storage": storage(url=URL),
        "URL that is none": storage(url=f"HTTPS://ada:{SECRET}@x"),
        "URL with another fault": storage(url=f"https://ada:{SECRET}@x:99999/ y"),
        "URL that is too short": storage(url=f"//ada:{SECRET}@x"),
        "header": storage(url=dav, options={"headers": {"Authorization": f"Bearer {SECRET}"}}),
        "inner header": storage(url=dav, options={"client_kwargs": {"headers": {"Cookie": SECRET}}}),
        "unknown option": storage(url=dav, options={"password": SECRET}),
        "option of a wrong kind": storage(
            url=dav, options={"token_file": [SECRET], "client_kwargs": {"x": SECRET}, "b": SECRET}
        ),
        "credentials of a bucket": storage(
            url="s3://b", options={"key": 5, "secret": SECRET, "endpoint_url": URL}
        ),
        "key of a login": storage(url="sftp://me@h/x", options={"passphrase": SECRET}),
        "transfer service": storage(transfer_service={"url": URL, "options": {"token": SECRET}}),
        "endpoint": element(kind="arc", options={"endpoint": URL, "token_file": "/t"}),
        "unencrypted endpoint": element(kind="arc", options={"endpoint": URL.replace("https", "http")}),
        "peer": element(kind="pilotage", options={"url": URL, "token": SECRET}),
        "environment": element(servers=[], options={"environment": {"A=": SECRET}}),
        "environment of a wrong kind": element(servers=[], options={"environment": {"PASSWORD": [SECRET]}}),
        "server of an element": element(
            servers=[{"name": "s", "options": {"endpoint": URL, "token": SECRET}}]
        ),
        "monitoring": lambda document: document["sites"][0].update(monitoring_url=URL),
    }


@pytest.mark.parametrize("place", places())
def test_no_refusal_of_a_federation_shows_a_secret(
    house: House, tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    document = json.loads(json.dumps(to_document(federation(tmp_path))))
    places()[place](document)
    operator = house.as_("operator", Identity(name="olga"))
    answer = operator.put("/federation", json=document)
    assert answer.status_code == 422, answer.text
    for text in (answer.text, caplog.text):
        assert SECRET not in text


@pytest.mark.parametrize("path", read_routes())
def test_no_answer_repeats_a_token_that_is_refused(unchanged: House, path: str) -> None:
    client = unchanged.client(SECRET)
    assert SECRET not in client.get(path).text
