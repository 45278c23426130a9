"""What colours, bars and menus claim: progress that is true, sites that take work, attempts, and refusals."""

import re

from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.server.web.rendering import middle
from tests.api.conftest import ALICE, House
from tests.page.work import BusyPilot, federation, trip

from .conftest import PageHouse, Submit, TestClient
from .test_task import token_of


def test_a_bar_shows_what_is_done_and_what_is_not_made_yet(
    alice: TestClient, submit: Submit, house: House
) -> None:
    task = submit(jobs=5, scouts=0)
    assert "0 of 5 jobs are done" in alice.get(f"/tasks/{task}").text
    pilot = BusyPilot(house, task)
    for job in pilot.jobs[:3]:
        pilot.report(job, "done", exit_code=0, wall_seconds=10, cpu_seconds=9)
    pilot.report(pilot.jobs[3], "running")
    text = alice.get(f"/tasks/{task}").text
    assert "3 of 5 jobs are done" in text
    widths = dict(re.findall(r'width="([\d.]+)" height="26" class="(\w+)"', text))
    assert {look: round(float(width) / 200) for width, look in widths.items()} == {"ok": 3, "run": 2}


def test_a_site_takes_work_while_a_breaker_holds_one_task_back(operator: TestClient, house: House) -> None:
    trip(house, house.as_("user", ALICE), "breaks")
    row = _row(operator, "south")
    assert 'class="state ok"' in row
    assert "2 circuit breakers hold some work back" in row
    sent = {"form_token": token_of(operator.get("/tasks").text), "because": "a broken disk"}
    assert operator.post("/sites/south/close", data=sent).status_code == 303
    assert 'class="state err"' in _row(operator, "south")
    assert "It takes no work" in operator.get("/sites/south").text


def _row(browser: TestClient, site: str) -> str:
    found = re.search(rf'<a href="/sites/{site}">.*?</tr>', browser.get("/sites").text, re.DOTALL)
    assert found
    return found[0]


def test_transitions_are_folded_to_attempts(alice: TestClient, submit: Submit, house: House) -> None:
    task = submit(jobs=1, scouts=0, max_attempts=1)
    pilot = BusyPilot(house, task)
    pilot.fail(pilot.jobs[0], "OSError: disk full", "")
    text = alice.get(f"/jobs/{pilot.jobs[0]}").text
    (summary,) = re.findall(r'<details id="attempt-1"><summary>(.*?)</summary>', text)
    assert "at <bdi>north-queue</bdi>" in summary
    assert "exit code 1" in summary
    assert "4 transitions" in summary


def test_refused_pages_have_the_menus_of_a_signed_in_person(
    pages: PageHouse, alice: TestClient, operator: TestClient
) -> None:
    for address in ("/no-such-page", "/tasks/999", "/admin"):
        answer = alice.get(address)
        assert answer.status_code in (403, 404)
        assert '<nav aria-label="Menus">' in answer.text, address
    assert '<nav aria-label="Menus">' not in pages.browser().get("/no-such-page").text
    assert 'href="/admin/servers"' in operator.get("/shares").text
    assert 'href="/admin/servers"' not in alice.get("/shares").text


def test_the_first_page_and_the_task_blame_the_same(alice: TestClient, submit: Submit, house: House) -> None:
    house.store.save_federation(federation(house.store.federation()), "test")
    task = submit(jobs=2, scouts=0, ram=64_000)
    house.split()
    take(step("broker"), house.runtime, house.runtime.begin(1000))
    told = house.as_("user", ALICE).get(f"/tasks/{task}").json()["remarks"]
    (fault,) = [one for one in told if one["kind"] == "fault"]
    row = alice.get("/").text.split("who can mend it")[1].split("</table>")[0]
    assert fault["text"].partition(" wait for ")[2] in row
    assert fault["action"] in row


def test_long_names_lose_their_middle() -> None:
    assert middle("calibrations", 40) == "calibrations"
    assert middle("a" * 30 + "b" * 30, 21) == "a" * 10 + "…" + "b" * 10
