"""The page leaves the same records as the API, and shows them."""

from typing import Any

import pytest

from pilotage.model.records.audit import AuditRecord
from pilotage.model.values.identity import token_id
from pilotage.server.web.sessions import MOST_WRONG
from pilotage.store import AuditQuery
from tests.api.conftest import ALICE, BOB, House

from .conftest import OLGA, PageHouse, Submit, TestClient
from .test_selections import hidden
from .test_task import token_of


def records(house: House, **query: Any) -> list[AuditRecord]:
    return list(house.store.audit.page(AuditQuery(limit=1000, **query)))


def test_a_session_leaves_a_record_at_its_begin_and_its_end(house: House, pages: PageHouse) -> None:
    browser, token = pages.browser(), pages.token("user", ALICE)
    assert browser.post("/sign-in", data={"token": token}).status_code == 303
    (session,) = house.store.sessions.of(ALICE)
    (cookie,) = browser.cookies.values()
    browser.post("/sign-out", data={"form_token": token_of(browser.get("/tasks").text)})
    (end, begin) = records(house)
    assert (begin.verb, begin.person, begin.record) == ("sign in", "alice", f"session {session.id}")
    assert (begin.token, begin.address) == (token_id(token), "127.0.0.1")
    assert (end.verb, end.person, end.token) == ("sign out", "alice", session.id)
    assert token not in repr(begin)
    assert cookie not in repr(begin)


def test_the_one_time_link_leaves_a_record(house: House, pages: PageHouse) -> None:
    assert pages.browser().get(f"/open?code={pages.code.code}").status_code == 303
    (record,) = records(house)
    assert (record.verb, record.person, record.role) == ("sign in", "operator", "operator")


def test_wrong_tokens_of_the_form_are_counted(house: House, pages: PageHouse) -> None:
    for _ in range(MOST_WRONG + 5):
        pages.browser().post("/sign-in", data={"token": "sesame-sesame"})
    house.store.add_measurements()
    (record,) = records(house)
    assert (record.verb, record.times) == ("sign-in refused", MOST_WRONG + 5)
    assert "sesame" not in repr(record)


def test_actions_leave_one_record_for_each_task(
    house: House, alice: TestClient, operator: TestClient, submit: Submit
) -> None:
    first, second = submit(), submit()
    address = f"/tasks/selected/hold?task={first}&task={second}"
    assert alice.post("/tasks/selected/hold", data=hidden(alice.get(address).text)).status_code == 303
    page = operator.get(f"/tasks/{first}/cancel").text
    assert operator.post(f"/tasks/{first}/cancel", data=hidden(page)).status_code == 303
    form = {"form_token": token_of(operator.get("/tasks").text), "because": "power cut"}
    assert operator.post("/sites/north/close", data=form).status_code == 303
    made = [record for record in records(house) if record.verb != "read"]
    (close, cancel, *held) = made[:4]
    assert {(one.verb, one.record, one.owner, one.person) for one in held} == {
        ("hold", f"task {first}", "alice", "alice"),
        ("hold", f"task {second}", "alice", "alice"),
    }
    assert (cancel.verb, cancel.record, cancel.person, cancel.owner) == (
        "cancel",
        f"task {first}",
        "olga",
        "alice",
    )
    assert (close.verb, close.record, close.why) == ("close", "site north", "power cut")


def test_a_comparison_of_federations_leaves_no_record(house: House, operator: TestClient) -> None:
    made = records(house)
    form = {"form_token": token_of(operator.get("/tasks").text), "text": "name: other\n"}
    operator.post("/admin/federation/load", data=form)
    assert [record for record in records(house) if record.verb != "read"] == made


def test_people_see_their_records_and_operators_all(
    pages: PageHouse, alice: TestClient, operator: TestClient, submit: Submit
) -> None:
    submit(BOB, name="other")
    task = submit()
    text = alice.get("/audit").text
    assert f"<bdi>task {task}</bdi>" in text
    assert "<bdi>bob</bdi>" not in text
    assert "<bdi>bob</bdi>" in operator.get("/audit").text
    assert "<bdi>bob</bdi>" not in operator.get("/audit?person=alice").text
    assert "There is no such record." in alice.get("/audit?verb=x").text
    assert alice.get("/audit?after=x").status_code == 422
    assert pages.signed_in("operator", OLGA).get("/as-json/audit?verb=submit").json()["records"]


@pytest.mark.parametrize("verb", ["drain", "close", "open"])
@pytest.mark.parametrize("place", ["sites/north", "queues/north-queue", "storages/north-disk"])
def test_each_restriction_leaves_one_record(
    house: House, operator: TestClient, place: str, verb: str
) -> None:
    form = {"form_token": token_of(operator.get("/tasks").text), "because": "power cut"}
    if verb == "open":
        assert operator.post(f"/{place}/drain", data=form).status_code == 303
    made = {record.id for record in records(house)}
    assert operator.post(f"/{place}/{verb}", data=form).status_code == 303
    (record,) = [record for record in records(house) if record.id not in made]
    assert (record.verb, record.record) == (verb, place.replace("s/", " "))


def test_each_grant_of_the_page_leaves_one_record(house: House, alice: TestClient, submit: Submit) -> None:
    task = submit()
    form = {"form_token": token_of(alice.get("/tasks").text), "reader": "bob"}
    for verb in ("grant", "revoke"):
        made = {record.id for record in records(house)}
        assert alice.post(f"/tasks/{task}/{verb}", data=form).status_code == 303
        (record,) = [record for record in records(house) if record.id not in made]
        assert (record.verb, record.record, record.owner) == (verb, f"task {task}", "alice")
        assert record.after["reader"] == "bob"


@pytest.mark.parametrize("verb", ["hold", "release", "cancel", "retry", "set", "delete"])
def test_each_verb_of_the_page_leaves_one_record(
    house: House, alice: TestClient, submit: Submit, verb: str
) -> None:
    task, form = submit(jobs=1, scouts=0), {"form_token": token_of(alice.get("/tasks").text), "memory": "900"}
    before = {"release": ("hold",), "retry": ("cancel",), "delete": ("cancel",)}.get(verb, ())
    if verb == "retry":
        house.activate(task)
    for earlier in before:
        assert alice.post(f"/tasks/{task}/{earlier}", data=form).status_code == 303
    made = {record.id for record in records(house)}
    answer = alice.post(f"/tasks/{task}/{verb}", data=form)
    assert answer.status_code == 303, answer.text
    (record,) = [record for record in records(house) if record.id not in made]
    assert (record.verb, record.record, record.person, record.address) == (
        verb,
        f"task {task}",
        "alice",
        "127.0.0.1",
    )
