"""A history, an event or a reason that this program cannot read spoils no answer: the rest is shown."""

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient

from pilotage.flow.step import take
from pilotage.flow.steps import step

from .conftest import House, Submit
from .test_access import CLOSED
from .test_strangers import IN_PATHS, PLACES

READS = sorted(path for method, path in CLOSED if method == "GET")

MEANINGS_GONE = "DELETE FROM meanings"
STATES_OF_ANOTHER_PROGRAM = "UPDATE meanings SET source = 'dreaming', target = 'levitating'"
FACTS_GONE = "DELETE FROM decision_facts"
REASONS_OF_ANOTHER_PROGRAM = "UPDATE decision_facts SET document = x'0900'"


def spoil(house: House, submit: Submit, statement: str) -> None:
    """Broker a task, keep one job waiting, and spoil what explains its records."""
    submit(jobs=2)
    house.pilot()
    house.split()
    take(step("broker"), house.runtime, house.runtime.begin(1000))
    spoilt = house.store.database.write(lambda connection: connection.execute(text(statement)).rowcount)
    assert spoilt > 0


@pytest.mark.parametrize(
    "statement", [MEANINGS_GONE, STATES_OF_ANOTHER_PROGRAM, FACTS_GONE, REASONS_OF_ANOTHER_PROGRAM]
)
def test_no_route_fails_at_what_it_cannot_read(
    house: House, operator: TestClient, submit: Submit, statement: str
) -> None:
    spoil(house, submit, statement)
    answers = {path: operator.get(path.format(**IN_PATHS, **PLACES)) for path in READS}
    assert {path: answer.status_code for path, answer in answers.items() if answer.status_code >= 500} == {}
    assert answers["/jobs/{job}"].is_success
    assert answers["/jobs/{job}/explain"].is_success


def test_unknown_transitions_are_shown_as_such(house: House, alice: TestClient, submit: Submit) -> None:
    spoil(house, submit, MEANINGS_GONE)
    history = alice.get("/jobs/1").json()["events"]
    assert [event["target"] for event in history] == ["unknown"] * len(history) != []
    assert all(event["cause"].startswith("unknown: the store has no meaning ") for event in history)
    assert "unknown: unknown: the store has no meaning " in str(alice.get("/jobs/1/explain").json())
    events = alice.get("/events?after=0").json()["events"]
    assert {event["kind"] for event in events} == {"unknown"}
    assert [1, 2] in [event["records"] for event in events], "what they are about is still there"


def test_a_state_of_another_program_keeps_its_cause(house: House, alice: TestClient, submit: Submit) -> None:
    spoil(house, submit, STATES_OF_ANOTHER_PROGRAM)
    last = alice.get("/jobs/1").json()["events"][-1]
    assert (last["source"], last["target"], bool(last["cause"])) == ("unknown", "unknown", True)
    assert "unknown: the store" not in last["cause"]
