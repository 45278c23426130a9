"""Simulations from the page: who may start them, what they may read, and the pictures that come of them."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pilotage.web import simulation_worker
from pilotage.web.simulation_runs import SimulationRuns
from tests.waiting import PATIENCE, wait_for

from .conftest import OLGA, PageHouse, TestClient
from .test_task import token_of

SMALL = """
name: small
federation: federation.yaml
default_site: {wait: 10}
generated: {tasks: 1, jobs: 2, arrivals: 10, work: 100}
"""


def sent(operator: TestClient, **fields: str) -> dict[str, str]:
    """Return the fields of the form."""
    return {"form_token": token_of(operator.get("/tasks").text), "scenario": SMALL, **fields}


@pytest.mark.slow
def test_two_policies_are_simulated_and_drawn(operator: TestClient) -> None:
    form = sent(operator, first="pilotage", second="early", seeds="1")
    assert operator.post("/simulate", data=form).status_code == 303
    assert operator.post("/simulate", data=form).status_code == 422, "one at a time"
    running = operator.get("/simulate").text
    assert 'http-equiv="refresh"' in running
    wait_for(lambda: "It runs" not in operator.get("/simulate").text, "the simulation ends")
    text = operator.get("/simulate").text
    assert text.count("<figure") == 2, text
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
