"""Simulations from the page: who may start them, what they may read, and the pictures that come of them."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pilotage.flow.calls.administration.people import LONGEST
from pilotage.flow.outside.kept_worlds import KeptWorlds
from pilotage.server.web import simulation_worker
from pilotage.server.web.simulation_runs import SimulationRuns
from pilotage.server.web.views.simulate import POLICIES
from pilotage.simulation.policies import KNOWN
from pilotage.store import SimulationResult
from pilotage.store.people.simulations import KEPT_FOR
from tests.waiting import PATIENCE, wait_for

from .conftest import OLGA, PageHouse, TestClient
from .test_task import token_of

SMALL = """
name: small
federation: federation.yaml
default_site: {wait: 10}
generated: {tasks: 1, jobs: 2, arrivals: 10, work: 100}
"""


def test_the_form_suggests_the_policies_that_every_scenario_has(operator: TestClient) -> None:
    assert POLICIES.keys() == KNOWN.keys()
    assert '<option value="delayed">' in operator.get("/simulate").text


def sent(operator: TestClient, **fields: str) -> dict[str, str]:
    """Return the fields of the form."""
    return {"form_token": token_of(operator.get("/tasks").text), "scenario": SMALL, **fields}


@pytest.mark.endurance
@pytest.mark.slow
def test_two_policies_are_simulated_and_drawn_at_whatever_server(
    pages: PageHouse, operator: TestClient
) -> None:
    other = PageHouse(pages.house).browser()
    other.cookies = operator.cookies
    form = sent(operator, first="pilotage", second="early", seeds="1")
    assert operator.get("/as-json/simulation").status_code == 404
    assert operator.post("/simulate", data=form).status_code == 303
    assert other.post("/simulate", data=form).status_code == 422, "one at a time"
    running = other.get("/simulate").text
    assert 'http-equiv="refresh"' in running
    wait_for(lambda: "It runs" not in operator.get("/simulate").text, "the simulation ends")
    text = other.get("/simulate").text
    assert text.count("<figure") == 2, text
    assert 'href="/as-json/simulation"' in text
    told = other.get("/as-json/simulation").json()
    assert (told["policies"], told["fault"], len(told["pictures"])) == (["pilotage", "early"], "", 2)
    assert told["begun"] <= told["ended"]
    assert "early" in told["text"]
    assert "pilotage" in text


def test_a_scenario_reads_no_file_of_the_server(operator: TestClient, alice: TestClient) -> None:
    for scenario, told in {
        SMALL.replace("federation.yaml", "/etc/passwd"): "must say federation: federation.yaml",
        SMALL.replace("generated", "swf: {path: /etc/passwd}\nnothing"): "simulate it with the command line",
        "a: [": "line",
    }.items():
        answer = operator.post("/simulate", data=sent(operator, scenario=scenario))
        assert answer.status_code == 422
        assert told in answer.text
    assert operator.post("/simulate", data=sent(operator, first="../x")).status_code == 422
    assert alice.get("/simulate").status_code == 403
    form = {"form_token": token_of(alice.get("/tasks").text)}
    assert alice.post("/simulate", data=form).status_code == 403


def test_a_recording_reads_the_server_itself_and_not_its_proxy(
    pages: PageHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = pages.browser("https://localhost:8470")
    browser.post("/sign-in", data={"token": pages.token("operator", OLGA)})
    begun: list[Mapping[str, str]] = []
    monkeypatch.setattr(SimulationRuns, "start", lambda *given: begun.append(given[-1]))
    assert browser.post("/simulate", data=sent(browser, work="recorded")).status_code == 303
    assert [one["PILOTAGE_URL"] for one in begun] == ["http://localhost:8470"]


def test_a_simulation_whose_server_is_gone_is_over(pages: PageHouse, operator: TestClient) -> None:
    simulations, now = pages.store.simulations, pages.house.now
    assert simulations.begin(":olga", ("pilotage", "early"), now, LONGEST)
    assert not simulations.begin(":olga", ("early",), now + 1, LONGEST)
    assert "It runs for" in operator.get("/simulate").text
    pages.house.now += LONGEST
    assert "its server ended before it did" in operator.get("/simulate").text
    assert "its server ended before it did" in operator.get("/as-json/simulation").json()["fault"]
    assert simulations.begin(":olga", ("early",), pages.house.now, LONGEST)
    simulations.end(":olga", now, now + 5, SimulationResult(policies=(), text="of before"))
    found = simulations.of(":olga", pages.house.now)
    assert found
    assert (found.ended, found.result.policies) == (None, ("early",))
    assert simulations.of(":olga", pages.house.now + KEPT_FOR + 1) is None


def test_a_day_is_chosen_in_admin_and_simulated(
    pages: PageHouse, operator: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "No world is kept here" in operator.get("/admin/days").text
    pages.house.runtime.kept_worlds = KeptWorlds(tmp_path, days=2)
    for name in ("20261126T020312Z-broker", "20261126T021812Z-broker", "20261127T000001Z-stage"):
        (tmp_path / f"{name}.json.gz").write_bytes(b"x" * 2000)
    text = operator.get("/admin/days").text
    assert "2 worlds</a>: 2 broker" in text
    assert "pilotage simulate --day 2026-11-26 --policy pilotage --policy early" in text
    assert "pilotage replay 20261126T021812Z-broker" in operator.get("/admin/days?day=2026-11-26").text
    told = operator.get("/as-json/worlds").json()["worlds"]
    assert [(one["step"], one["bytes"]) for one in told] == [("broker", 2000)] * 2 + [("stage", 2000)]
    chosen = operator.get("/simulate?work=day&day=2026-11-26").text
    assert "<option selected>2026-11-26</option>" in chosen
    begun: list[Sequence[Sequence[str]]] = []
    monkeypatch.setattr(SimulationRuns, "start", lambda *given: begun.append(given[3]))
    form = sent(operator, work="day", day="2026-11-26", seeds="1")
    assert operator.post("/simulate", data=form).status_code == 303
    (((*words,),),) = begun
    assert words[:3] == ["simulate", "--day", "2026-11-26"]
    assert operator.get("/simulate?work=day&day=x").status_code == 422


def test_a_simulation_ends_with_its_server() -> None:
    # The module alone, because its package takes seconds to import.
    code = "import simulation_worker as one; one.COMMAND_LINE = 'timeit'; one.main()"
    # The shell is the server, and ends at once. Its output ends with the command.
    server = f'"$0" -c "$1" 10 {2**40} $$ -n1 "import time; time.sleep(600)" &'
    subprocess.run(
        ["sh", "-c", server, sys.executable, code],
        env={"PYTHONPATH": str(Path(simulation_worker.__file__).parent)},
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    )
