"""Who gets in, by which door, for how long; and what no other site can do."""

import asyncio
import re
from typing import Any
from urllib.parse import parse_qsl

import pytest
import uvicorn
from fastapi.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from pilotage.server.process import of_proxies
from pilotage.server.web.sessions import CODE_LIFE, MOST_WRONG, SESSION_LIFE
from pilotage.store import session_token
from tests.api.conftest import ALICE, BOB, House

from .conftest import OLGA, PageHouse, TestClient


def test_nobody_sees_a_page_without_a_session(pages: PageHouse) -> None:
    answer = pages.browser().get("/tasks?name=a*")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2Ftasks%3Fname%3Da%2A")
    # A fragment would put the form for a token into the middle of a page.
    fragment = pages.browser().get("/tasks", headers={"HX-Request": "true"})
    assert (fragment.status_code, fragment.headers["hx-redirect"]) == (401, "/sign-in")


def test_the_cookie_of_a_session_is_not_the_token_and_no_script_reads_it(pages: PageHouse) -> None:
    token = pages.token("user", ALICE)
    browser = pages.browser()
    answer = browser.post("/sign-in", data={"token": token, "next": "/tasks"})
    assert answer.headers["location"] == "/tasks"
    cookie = answer.headers["set-cookie"]
    assert token not in cookie
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert browser.get("/tasks").status_code == 200


def test_a_session_ends_after_half_a_day_and_at_sign_out(house: House, pages: PageHouse) -> None:
    browser = pages.signed_in("user", ALICE)
    page = browser.get("/tasks").text
    held = dict(browser.cookies)
    form = re.search(r'name="form_token" value="(\w+)"', page)
    assert form
    assert browser.post("/sign-out", data={"form_token": form[1]}).status_code == 303
    again = pages.browser()
    again.cookies.update(held)
    assert again.get("/tasks").status_code == 303, "the session's token is revoked, not only forgotten"
    other = pages.signed_in("user", ALICE)
    house.now += SESSION_LIFE + 1
    assert other.get("/tasks").status_code == 303


def test_a_session_ends_with_the_token_that_opened_it(house: House, pages: PageHouse) -> None:
    browser = pages.signed_in("user", ALICE)
    assert browser.get("/tasks").status_code == 200
    (token,) = house.store.tokens.people()
    house.store.tokens.revoke(token.id)
    house.now += 60  # a found token is believed for some seconds
    assert browser.get("/tasks").status_code == 303


def test_a_revoked_token_opens_no_session_and_neither_does_a_session(house: House, pages: PageHouse) -> None:
    token = pages.token("user", ALICE)
    browser = pages.browser()
    assert browser.post("/sign-in", data={"token": token}).status_code == 303
    (cookie,) = browser.cookies.values()
    for text in (cookie, session_token(cookie, "testclient")):
        assert pages.browser().post("/sign-in", data={"token": text}).status_code == 403
    (listed,) = house.store.tokens.people()
    house.store.tokens.revoke(listed.id)
    # The server still believes a found token for some seconds.
    assert pages.browser().post("/sign-in", data={"token": token}).status_code == 403
    house.now += 60
    assert browser.get("/tasks").status_code == 303


def test_a_stolen_cookie_opens_nothing_in_another_browser(pages: PageHouse, alice: TestClient) -> None:
    thief = pages.browser()
    thief.cookies.update(dict(alice.cookies))
    assert thief.get("/tasks").status_code == 200, "the same browser"
    thief.headers["User-Agent"] = "Thief/1.0"
    assert thief.get("/tasks").status_code == 303
    assert alice.get("/tasks").status_code == 200


def test_a_person_sees_and_ends_their_sessions_and_an_operator_everybodys(
    house: House, pages: PageHouse, alice: TestClient, operator: TestClient
) -> None:
    other = pages.browser()
    other.headers["User-Agent"] = "Phone/2.0"
    assert other.post("/sign-in", data={"token": pages.token("user", ALICE)}).status_code == 303
    pages.signed_in("user", BOB)
    page = alice.get("/sessions").text
    assert "Phone/2.0" in page
    assert "(this one)" in page
    assert "bob" not in page
    assert "bob" in operator.get("/sessions").text
    (phone,) = (one for one in house.store.sessions.of(ALICE) if one.browser == "Phone/2.0")
    (bobs,) = house.store.sessions.of(BOB)
    assert alice.get(f"/sessions/{bobs.id}/end").status_code == 404
    form = re.search(r'name="form_token" value="(\w+)"', page)
    assert form
    assert alice.post(f"/sessions/{bobs.id}/end", data={"form_token": form[1]}).status_code == 404
    assert alice.post(f"/sessions/{phone.id}/end", data={"form_token": form[1]}).status_code == 303
    house.now += 60  # a found token is believed for some seconds
    assert other.get("/tasks").status_code == 303
    assert alice.get("/tasks").status_code == 200


def test_pilots_and_wrong_tokens_do_not_get_in_and_lock_out_nobody(house: House, pages: PageHouse) -> None:
    browser = pages.browser()
    assert browser.post("/sign-in", data={"token": pages.token("pilot", ALICE)}).status_code == 403
    for _ in range(MOST_WRONG - 1):
        assert browser.post("/sign-in", data={"token": "wrong"}).status_code == 403
    assert browser.post("/sign-in", data={"token": "wrong"}).status_code == 429
    assert browser.get("/open?code=wrong").status_code == 403
    # Others come from the same address: behind a proxy, or at a university.
    assert pages.browser().post("/sign-in", data={"token": pages.token("user", ALICE)}).status_code == 303
    assert pages.browser().get(f"/open?code={pages.code.code}").status_code == 303
    house.now += 61
    assert browser.post("/sign-in", data={"token": "wrong"}).status_code == 403


@pytest.mark.parametrize(
    ("proxies", "caller", "seen"),
    [
        ((), "127.0.0.1", ["127.0.0.1", "http"]),
        (("127.0.0.1",), "127.0.0.1", ["192.0.2.7", "https"]),
        (("10.0.0.0/8",), "10.1.2.3", ["192.0.2.7", "https"]),
        (("10.0.0.0/8",), "127.0.0.1", ["127.0.0.1", "http"]),
    ],
)
def test_only_a_proxy_of_the_settings_says_for_whom_it_asks(
    proxies: tuple[str, ...], caller: str, seen: list[str]
) -> None:
    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        answer = JSONResponse([scope["client"][0], scope["scheme"]])
        await answer(scope, receive, send)

    config = uvicorn.Config(told, **of_proxies(proxies), log_config=None)
    config.load()
    browser = TestClient(config.loaded_app, client=(caller, 50_000))
    headers = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https"}
    assert browser.get("/", headers=headers).json() == seen


def test_a_one_time_code_opens_one_session_on_this_machine_alone(house: House, pages: PageHouse) -> None:
    address = f"/open?code={pages.code.code}"
    assert pages.browser(client="192.0.2.7").get(address).status_code == 403
    assert pages.browser("http://pilotage.test:8470").get(address).status_code == 403
    assert pages.browser().get("/open?code=wrong").status_code == 403
    browser = pages.browser()
    assert browser.get(address).status_code == 303
    assert "you see the work of everybody" in browser.get("/tasks").text
    assert pages.browser().get(address).status_code == 403, "once"
    late = PageHouse(house)
    house.now += CODE_LIFE + 1
    assert late.browser().get(f"/open?code={late.code.code}").status_code == 403


def test_a_form_is_read_beside_the_event_loop(
    pages: PageHouse, alice: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*given: Any, **more: Any) -> list[tuple[str, str]]:
        # A large document takes seconds: meanwhile the server could answer nobody.
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return parse_qsl(*given, **more)

    monkeypatch.setattr("pilotage.server.web.pages.parse_qsl", read)
    assert alice.post("/admin/federation/load", data={"text": "a"}).status_code == 403
    assert pages.browser().post("/sign-in", data={"token": "wrong"}).status_code == 403


def test_forms_of_other_sites_are_refused(pages: PageHouse, alice: TestClient) -> None:
    assert alice.post("/sign-out", data={}).status_code == 403
    assert alice.post("/sign-out", data={"form_token": "x"}).status_code == 403
    evil = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    token = pages.token("user", ALICE)
    assert pages.browser().post("/sign-in", data={"token": token}, headers=evil).status_code == 403
    assert alice.get("/tasks").status_code == 200


def test_a_name_of_somebody_else_is_refused(pages: PageHouse) -> None:
    assert pages.browser("http://rebound.example:8470").get("/sign-in").status_code == 421
    for name in ("pilotage.test:8470", "localhost:8470", "127.0.0.1:8470", "[::1]:8470"):
        assert pages.browser(f"http://{name}").get("/sign-in").status_code == 200


def test_sign_in_leads_to_pages_of_this_server_alone(pages: PageHouse) -> None:
    for wanted in (
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "/\tx",
    ):
        answer = pages.browser().post("/sign-in", data={"token": pages.token("user", ALICE), "next": wanted})
        assert answer.headers["location"] == "/"


def test_the_api_takes_no_cookie(alice: TestClient) -> None:
    assert alice.get("/api/v1/tasks").status_code == 401
    assert alice.post("/api/v1/tasks", json={"tasks": []}).status_code == 401


def test_a_session_reads_documents_of_the_api_and_changes_nothing_there(alice: TestClient) -> None:
    assert alice.get("/as-json/tasks").json()["tasks"] == []
    assert alice.post("/as-json/tasks", json={"tasks": []}).status_code in (404, 405)
    assert alice.get("/as-json/tokens").status_code == 403


def test_pages_allow_no_script_of_anybody_else(alice: TestClient) -> None:
    answer = alice.get("/tasks")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*\bsrc=)|\bstyle=|\son\w+=|hx-on", answer.text)
    for refused in (
        alice.get("/nothing"),
        alice.get("/tasks/77"),
        alice.post("/sign-in", content=b"x" * 5000),
    ):
        assert refused.status_code in (404, 413)
        assert refused.headers["content-security-policy"] == policy
        assert refused.headers["content-type"].startswith("text/html")


def test_metrics_are_read_beside_pages_with_a_token_and_not_with_a_session(pages: PageHouse) -> None:
    token = pages.token("operator", OLGA)
    read = pages.browser().get("/metrics", headers={"Authorization": f"Bearer {token}"})
    assert (read.status_code, "pilotage_jobs" in read.text) == (200, True)
    assert pages.signed_in("operator", OLGA).get("/metrics").status_code == 401


def test_what_a_session_reads_of_the_api_is_no_script_or_page_for_browsers(alice: TestClient) -> None:
    for path in ("/as-json/tasks", "/as-json/files/content?file=user.alice:none"):
        headers = alice.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


def test_thousands_of_digits_are_no_fault_of_the_server(pages: PageHouse, alice: TestClient) -> None:
    for browser in (pages.browser(), alice):
        assert browser.get(f"/tasks/{'9' * 5000}").status_code == 404
    assert alice.get(f"/tasks/{2**63}").status_code == 404


def test_nobody_watches_what_they_may_not_see(house: House, pages: PageHouse, alice: TestClient) -> None:
    created = house.as_("user", BOB).post("/tasks", json={"tasks": [{"name": "bobs", "command": ["true"]}]})
    task = created.json()["tasks"][0]["id"]
    for query, status in {
        f"task={task}": 404,
        "job=77": 404,
        "pilot=1": 403,
        "kind=nothing": 422,
        "task=" + "&task=".join(map(str, range(1, 30))): 422,
    }.items():
        assert alice.get(f"/live?after=1&{query}").status_code == status, query
    assert pages.browser().get("/live?after=1").status_code == 303
