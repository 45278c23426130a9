"""Whoever knows a webhook's whole address can post to it: only its owner sees it, wherever it is shown."""

import gzip
import logging
import re
from pathlib import Path

import pytest
from starlette.routing import Route

from pilotage.adapters.notifiers.sender import Sender
from pilotage.flow.loops.archiving import archive_alone
from pilotage.flow.outside.kept_worlds import FOLDER, KeptWorlds
from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.server.web import actions, federation_actions, live, place_actions
from pilotage.server.web.views import ROUTES
from tests.api.conftest import ALICE, BOB, OTHER_ALICE, House
from tests.api.test_access import CLOSED
from tests.api.test_strangers import IN_PATHS, PLACES
from tests.flow.test_servers_gone import Named
from tests.waiting import wait_for

from .conftest import OLGA, PageHouse, Submit

WORD = "xyzzy"
HOST = "https://127.0.0.1:1"
HOOK = f"{HOST}/services/T0/B0/{WORD}"
NAMES = {**{name: str(number) for name, number in IN_PATHS.items()}, **PLACES, "job": "1"}


def filled(path: str) -> str:
    """A route's path with names of what there is."""
    return re.sub(r"\{(\w+)[^}]*\}", lambda found: NAMES.get(found[1], "1"), path)


ASKED = sorted({filled(path) for method, path in CLOSED if method == "GET" and "/pilot/" not in path})
PAGES = sorted(
    {
        filled(route.path)
        for route in (*ROUTES, *actions.ROUTES, *place_actions.ROUTES, *federation_actions.ROUTES)
        if isinstance(route, Route) and "GET" in (route.methods or ()) and route not in live.ROUTES
    }
)


@pytest.fixture
def told(house: House, submit: Submit, tmp_path: Path) -> House:
    """A house where a webhook stands in settings, a test, a task, its notification, and the error of that."""
    alice = house.as_("user", ALICE)
    house.runtime.kept_worlds = KeptWorlds(tmp_path / FOLDER, 7)
    house.runtime.notifying.sender = Sender(clock=house.runtime.clock)
    assert alice.put("/notifications/settings", json={"notify": [{"url": HOOK}]}).status_code == 200
    assert alice.post("/notifications/test", json={"notify": [{"url": HOOK}]}).status_code == 202
    task = submit()
    assert alice.post(f"/tasks/{task}/cancel").status_code == 200
    for _ in range(5):
        house.now += 60
        take(step("notify"), house.runtime, house.runtime.begin(1000))
        wait_for(lambda: not house.runtime.notifying._pending, "what is sent is sent")
    assert alice.post("/notifications/test", json={"notify": [{"url": HOOK}]}).status_code == 202
    submit()
    found = alice.get("/notifications").json()["notifications"]
    assert {(one["task"], bool(one["error"])) for one in found} == {(0, False), (0, True), (task, True)}
    return house


@pytest.mark.endurance
def test_nobody_but_its_owner_sees_a_webhook(
    told: House, pages: PageHouse, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    seen = {path for path in ASKED if WORD in told.as_("user", ALICE).get(path).text}
    assert seen == {"/tasks/1", "/tasks/1/explain", "/notifications", "/notifications/settings"}
    others = (told.as_("operator", OLGA), told.as_("user", BOB), told.as_("user", OTHER_ALICE))
    answers = [person.get(path) for person in others for path in ASKED]
    answers += [
        others[0].get(path) for path in ("/events?after=0", "/tasks?sort=name", "/notifications?task=1")
    ]
    answers += [others[0].post(f"/tasks/2/{verb}") for verb in ("hold", "release", "publish")]
    answers += [told.client().get(path) for path in ("/metrics", "/openapi.json", "/health")]
    for role, person in (("operator", OLGA), ("user", BOB)):
        browser = pages.signed_in(role, person)  # type: ignore[arg-type]
        answers += [browser.get(path) for path in PAGES]
    assert sum(answer.status_code == 200 for answer in answers) > 100
    for answer in answers:
        assert WORD not in answer.text, answer.url
    # They see which ones are equal, and decisions about a world stay the same.
    world = others[0].get("/world").json()
    shown = {one["receiver"] for one in others[0].get("/notifications").json()["notifications"]}
    assert shown == {f"url:{world['tasks'][0]['spec']['notify'][0]['url']}"}
    assert shown == {one["receiver"] for one in (*world["notifications"], *world["recent_messages"])}
    (receiver,) = shown
    assert receiver.startswith(f"url:{HOST}/")
    told.runtime.kept_worlds.wait()
    (kept,) = (tmp_path / FOLDER).glob("*-notify.json.gz")
    assert HOST.encode() in gzip.decompress(kept.read_bytes())
    assert WORD.encode() not in gzip.decompress(kept.read_bytes())
    archived: list[bytes] = []
    assert [*archive_alone(told.store, Named("test"), told.now + 1, archived.extend)]
    assert sum(HOST.encode() in line for line in archived) == 3
    assert not any(WORD.encode() in line for line in archived)
    logged = caplog.text + "".join(record.getMessage() for record in caplog.get_records("setup"))
    assert WORD not in logged
