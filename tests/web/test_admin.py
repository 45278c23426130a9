"""What operators administer, and that nobody else sees it."""

import re
from dataclasses import replace
from typing import Any

from pilotage.federation.documents import write
from tests.api.conftest import House

from .conftest import TestClient
from .test_task import token_of

ADDRESSES = (
    "/admin",
    "/admin/federation",
    "/admin/history",
    "/admin/history?after=1",
    "/admin/tokens",
    "/admin/servers",
    "/admin/days",
)


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


def with_memory(house: House, memory: float) -> str:
    """Return the document of the federation in force with another limit of its last queue."""
    found = house.store.declared_federation()
    return write(replace(found, queues=(*found.queues[:-1], replace(found.queues[-1], max_memory=memory))))


def load(operator: TestClient, text: str, page: str = "", **fields: str) -> Any:
    """Send a document as the form of a page does."""
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="(\w*)"', page))
    sent = {"form_token": token_of(operator.get("/tasks").text), **hidden, "text": text, **fields}
    return operator.post("/admin/federation/load", data=sent)


def test_a_federation_is_checked_and_compared_before_it_is_loaded(house: House, operator: TestClient) -> None:
    version = house.store.version()
    whole = write(house.store.declared_federation())
    bad = load(operator, whole.replace("storage: north-disk", "storage: <b>nowhere"))
    assert bad.status_code == 422
    assert "&lt;b&gt;nowhere" in bad.text
    assert re.search(r'<td class="n" data-l="line">\d+<', bad.text)
    changed = with_memory(house, 4321).replace("\n", "\r\n")
    look = load(operator, changed)
    assert "1 change. No work and no file is affected." in look.text
    assert "4321" in look.text
    assert house.store.version() == version, "a look changes nothing"
    other = load(operator, changed.replace("4321", "1234"), look.text, load="true")
    assert "not the one that you compared" in other.text
    assert house.store.version() == version
    done = load(operator, changed, look.text, load="true", note="more memory")
    assert (done.status_code, house.store.version()) == (303, version + 1), done.text
    assert "more memory" in operator.get(done.headers["location"]).text
    late = load(operator, changed.replace("4321", "99"), look.text)
    refused = load(operator, changed.replace("4321", "99"), late.text, load="true", expected=str(version))
    assert refused.status_code == 409
    assert house.store.version() == version + 1


def test_an_earlier_federation_is_put_in_force_again(house: House, operator: TestClient) -> None:
    first = house.store.version()
    whole = write(house.store.declared_federation())
    changed = with_memory(house, 4321)
    load(operator, changed, load(operator, changed).text, load="true")
    page = operator.get(f"/admin/federation/rollback?version={first}").text
    assert "max_memory" in page
    sent = dict(re.findall(r'type="hidden" name="(\w+)" value="(\w*)"', page))
    assert operator.post("/admin/federation/rollback", data=sent).status_code == 303
    assert write(house.store.declared_federation()) == whole
    assert operator.get("/admin/federation/rollback?version=999").status_code == 404


def test_only_operators_load_and_go_back(alice: TestClient) -> None:
    for address in ("/admin/federation/load", "/admin/federation/rollback?version=1"):
        assert alice.get(address).status_code == 403
    sent = {"form_token": token_of(alice.get("/tasks").text), "version": "1"}
    assert alice.post("/admin/federation/rollback", data=sent).status_code == 403
    assert alice.post("/admin/federation/load", data=sent).status_code == 403
