"""Through how many of our files and functions a request passes: what one has to know to understand it."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pilotage
from tests.api.conftest import ALICE, House, submit_to
from tests.api.test_pilot_agent import OFFER

from .conftest import PageHouse, TestClient

SOURCE = str(Path(pilotage.__file__).parent)

MOST = {"a submission": (108, 397), "a match": (55, 174), "a task page": (75, 257)}
"""Files and functions of each trip at most. Whoever makes a trip shorter lowers its numbers."""


def functions(request: Callable[[], Any]) -> set[CodeType]:
    """Return our functions that run for a request. One before it has warmed what servers remember."""
    passed: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE) and not code.co_name.startswith("<"):
            passed.add(code)

    assert request().is_success
    threading.setprofile(note)
    try:
        assert request().is_success
    finally:
        threading.setprofile(None)
    return passed


def of_own_loop(client: TestClient) -> TestClient:
    """Return a client of an event loop that begins with each request: only new threads are watched."""
    client.portal = None
    return client


def test_requests_pass_through_few_files(house: House, pages: PageHouse, alice: TestClient) -> None:
    person = of_own_loop(house.as_("user", ALICE))
    body = {"tasks": [{"name": "work", "command": ["true"], "jobs": 4, "scouts": 0}]}
    task = submit_to(person, **body["tasks"][0])
    house.activate(task)
    pilot = of_own_loop(house.pilot()[1])
    browser = of_own_loop(alice)
    trips = {
        "a submission": functions(lambda: person.post("/tasks", json=body)),
        "a match": functions(lambda: pilot.post("/pilot/match", json=OFFER)),
        "a task page": functions(lambda: browser.get(f"/tasks/{task}")),
    }
    for name, codes in trips.items():
        files = {one.co_filename for one in codes}
        print(f"{name} passes through {len(files)} files and {len(codes)} functions")
        assert len(files) <= MOST[name][0], sorted(files)
        assert len(codes) <= MOST[name][1], sorted(one.co_qualname for one in codes)
