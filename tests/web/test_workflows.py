"""Workflows on the page: the list, the graph, the tab of a task, and who sees them."""

import re

import pytest

from pilotage.server.web.chain_graph import GraphNode, graph
from tests.api.conftest import ALICE, BOB, House

from .conftest import PageHouse, Submit, TestClient


@pytest.fixture
def tasks(house: House) -> list[int]:
    """A workflow: one task, two after it, and one after both."""
    after = {"first": [], "left": ["first"], "right": ["first"], "last": ["left", "right"]}
    body = {
        "name": "chain",
        "tasks": [{"name": name, "command": ["true"], "after": words} for name, words in after.items()],
    }
    answer = house.as_("user", ALICE).post("/workflows", json=body)
    assert answer.status_code == 201, answer.text
    return [one["id"] for one in answer.json()["tasks"]]


def test_a_workflow_is_drawn_and_told(alice: TestClient, tasks: list[int]) -> None:
    listed = alice.get("/workflows").text
    assert "4 waiting" in listed
    (address,) = re.findall(r'href="(/workflows/\d+)"', listed)
    for where in (address, f"/tasks/{tasks[1]}/workflow"):
        text = alice.get(where).text
        assert text.count('<rect x="1"') == 2, "one box in the first column, and its look"
        assert text.count('<rect x="201"') == 4
        assert text.count("<path ") == 4
        assert f'href="/tasks/{tasks[3]}"' in text
        found = re.search(r'href="(/as-json/[^"]*)"', text)
        assert found
        assert alice.get(found[1]).status_code == 200
        assert "as command: <code>pilotage status " in text
    assert 'class="box current"' in text


def test_nobody_sees_workflows_of_others(
    house: House, pages: PageHouse, alice: TestClient, operator: TestClient, tasks: list[int]
) -> None:
    bob = pages.signed_in("user", BOB)
    (address,) = re.findall(r'href="(/workflows/\d+)"', operator.get("/workflows").text)
    assert operator.get(address).status_code == 200
    assert "/workflows/" not in bob.get("/workflows").text
    for nothing in (address, f"/tasks/{tasks[0]}/workflow", "/workflows/999"):
        assert bob.get(nothing).status_code == 404
    assert "/workflows/" not in alice.get("/workflows?name=other").text


def test_a_task_without_a_chain_has_no_tab(alice: TestClient, submit: Submit) -> None:
    task = submit()
    assert f"/tasks/{task}/workflow" not in alice.get(f"/tasks/{task}").text
    assert "It comes after no other task." in alice.get(f"/tasks/{task}/workflow").text


def test_too_many_tasks_are_not_drawn() -> None:
    nodes = [
        GraphNode(id=number, name="n", state="waiting", look="wait", jobs={}, before=range(number))
        for number in range(40)
    ]
    assert graph(nodes) == ""
    assert "<svg" in graph(nodes[:10])
