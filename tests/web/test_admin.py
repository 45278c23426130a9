"""What operators administer, and that nobody else sees it."""

import re

from tests.api.conftest import House

from .conftest import TestClient
from .test_task import token_of

ADDRESSES = ("/admin", "/admin/federation", "/admin/history", "/admin/history?before=2", "/admin/tokens")


def test_it_is_for_operators(alice: TestClient, operator: TestClient) -> None:
    for address in ADDRESSES:
        assert alice.get(address).status_code == 403, address
        answer = operator.get(address)
        assert answer.status_code == 200, answer.text
        found = re.search(r'href="(/as-json/[^"]*)"', answer.text)
        assert found, address
        assert operator.get(found[1].replace("&amp;", "&")).status_code == 200, address
        assert "as command: <code>pilotage " in answer.text
    assert 'href="/admin"' not in alice.get("/tasks").text


def test_a_closure_is_shown_and_recorded(house: House, operator: TestClient) -> None:
    assert "Nothing is drained, closed or set aside" in operator.get("/admin").text
    sent = {"form_token": token_of(operator.get("/tasks").text), "because": "power <b>cut"}
    assert operator.post("/sites/north/close", data=sent).status_code == 303
    text = operator.get("/admin").text
    assert "power &lt;b&gt;cut" in text
    assert 'href="/sites/north/open"' in text
    assert "site north closed by operator:olga" in operator.get("/admin/history").text


def test_neither_options_nor_tokens_are_shown(house: House, operator: TestClient) -> None:
    text = operator.get("/admin/federation").text
    assert "north-queue" in text
    assert "secret" not in text
    listed = operator.get("/admin/tokens").text
    assert "<bdi>olga</bdi>" in listed
    assert "pilotage token revoke " in listed
