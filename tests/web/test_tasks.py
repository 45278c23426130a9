"""The list of tasks: filters, order, pages, and who sees what."""

import re
from typing import get_args

import pytest

from pilotage.model.values.identity import Identity
from pilotage.server.web.views import tasks as view
from pilotage.store import TaskSort
from tests.api.conftest import ALICE, BOB, OTHER_ALICE, House

from .conftest import Submit, TestClient


def names(text: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/tasks/\d+"><bdi>(.*?)</bdi>', text)


def test_users_see_their_own_tasks_and_operators_all(
    alice: TestClient, operator: TestClient, submit: Submit
) -> None:
    for owner in (ALICE, BOB, OTHER_ALICE):
        submit(owner, name=f"of-{owner.name}-{owner.vo}")
    assert names(alice.get("/tasks").text) == ["of-alice-atlas"]
    assert names(operator.get("/tasks").text) == ["of-alice-belle", "of-bob-atlas", "of-alice-atlas"]
    assert names(operator.get("/tasks?owner=bob").text) == ["of-bob-atlas"]
    assert names(alice.get("/tasks?owner=bob").text) == []


def test_tasks_are_filtered_sorted_and_counted(alice: TestClient, submit: Submit, house: House) -> None:
    submit(name="b", labels={"campaign": "x"}, priority=100)
    house.now += 1
    submit(name="a", priority=300)
    cancelled = submit(name="c", priority=200)
    house.as_("user", ALICE).post(f"/tasks/{cancelled}/cancel")
    for query, expected in {
        "": ["c", "a", "b"],
        "sort=name": ["a", "b", "c"],
        "sort=priority": ["a", "c", "b"],
        "label=campaign%3Dx": ["b"],
        "label=": ["c", "a", "b"],
        "name=[ab]": [],
        "state=cancelled": ["c"],
        "state=registered": ["a", "b"],
    }.items():
        assert names(alice.get(f"/tasks?{query}").text) == expected, query
    page = alice.get("/tasks?state=registered").text
    assert re.search(r'state=registered" aria-current="page">new <span class="n">2<', page)
    assert re.search(r'href="/tasks">all <span class="n">3<', page)
    assert "pilotage status --state registered" in page
    assert alice.get("/as-json/tasks?limit=50&state=registered").status_code == 200


def test_pages_of_each_order_hold_each_task_once(
    alice: TestClient, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "ROWS", 2)
    for number in range(7):
        submit(name=f"t{number % 3}", priority=100 + number % 2)
    for sort in get_args(TaskSort):
        address: str | None = f"/tasks?sort={sort}"
        seen: list[str] = []
        while address:
            text = alice.get(address).text
            seen += re.findall(r'<th scope="row"><a href="/tasks/(\d+)"', text)
            following = re.search(r'rel="next" href="(.*?)"', text)
            address = following[1].replace("&amp;", "&") if following else None
        assert sorted(map(int, seen)) == list(range(1, 8)), sort


def test_wrong_filters_are_named(alice: TestClient) -> None:
    for wrong, named in (("state=lost", "state"), ("after=-1", "no position in this list")):
        answer = alice.get(f"/tasks?{wrong}")
        assert answer.status_code == 422
        assert named in answer.text
    assert alice.get("/tasks?site=nowhere").status_code == 404


def test_what_people_write_is_text_and_nothing_else(operator: TestClient, submit: Submit) -> None:
    submit(Identity(name="<script>alert(1)</script>"), labels={"a": '"><img src=x>'})
    text = operator.get("/tasks?label=%3Cb%3E").text + operator.get("/tasks").text
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "<b>" not in text
    assert "&lt;script&gt;alert(1)" in text
    refused = operator.get("/tasks?site=%3Cscript%3E").text
    assert "<script>" not in refused


def test_the_part_that_is_renewed_comes_alone(alice: TestClient, submit: Submit) -> None:
    submit()
    part = alice.get("/tasks", headers={"HX-Request": "true"}).text
    assert re.match(r'<div id="live" data-live="/live\?after=\d+" [^>]*hx-get="/tasks"', part.strip())
    assert "<html" not in part
    assert names(part) == ["work"]
