"""Whatever others ask, no answer has a word of a person's work: neither to their VO nor to another one."""

import pytest
from starlette.testclient import TestClient

from pilotage.model.documents.decision import Create, Move
from pilotage.model.records.failures import Failure
from pilotage.model.records.states import JobState

from .conftest import ALICE, BOB, OTHER_ALICE, House
from .test_access import CLOSED, FOR_AGENTS, OPERATORS, PILOTS

WORD = "xyzzy"
"""A word that stands in everything that Alice writes."""

ASKED = [path for method, path in CLOSED if method == "GET"]
IN_PATHS = {"task": 1, "job": 1, "pilot": 1, "transfer": 1, "workflow": 1, "attempt": 1, "token": 1}
PLACES = {"queue": "north-queue", "site": "north", "storage": "north-disk", "kind": "queue", "name": "north"}


def work_of_alice(house: House, alice: TestClient) -> None:
    """Submit work with the word everywhere. Jobs fail with it, and so circuit breakers open."""
    task = {
        "name": WORD,
        "command": ["echo", WORD],
        "labels": {"campaign": WORD},
        "outputs": [WORD],
        "jobs": 6,
        "scouts": 0,
    }
    assert alice.post("/tasks", json={"tasks": [task]}).status_code == 201
    stages = [{"name": WORD, "command": ["true"]}, {"name": "b", "command": ["true"], "after": [WORD]}]
    assert alice.post("/workflows", json={"name": WORD, "tasks": stages}).status_code == 201
    jobs = house.activate(1)
    failed = (
        Failure(
            job=job,
            attempt=1,
            task=1,
            owner=ALICE.name,
            vo=ALICE.vo,
            queue="north-queue",
            node="n1",
            pilot=1,
            pilots=1,
            time=house.now,
            lasted=1,
            exit_code=1,
            ending=f"error: {WORD}",
        )
        for job in jobs
    )
    house.commit(Create(records=tuple(failed), cause="failed"))
    cancelled = {"error": f"error: {WORD}"}
    house.commit(
        Move(
            kind="job",
            ids=jobs[:3],
            source=JobState.ACTIVATED,
            target=JobState.CANCELLED,
            cause="cancelled",
            changes=cancelled,
        )
    )


@pytest.mark.parametrize("person", [BOB, OTHER_ALICE], ids=["same VO", "another VO"])
def test_no_answer_to_others_has_a_word_of_a_persons_work(house: House, person: object) -> None:
    alice, other = house.as_("user", ALICE), house.as_("user", person)  # type: ignore[arg-type]
    work_of_alice(house, alice)
    seen = {}
    for path in ASKED:
        if ("GET", path) in OPERATORS | PILOTS | FOR_AGENTS:
            continue
        asked = path.format(**IN_PATHS, **PLACES)
        parameters = {"dataset": WORD, "file": WORD, "after": "0"} if "after" not in asked else {}
        for more in ({}, parameters):
            seen[asked, bool(more)] = WORD in alice.get(asked, params=more).text
            answer = other.get(asked, params=more)
            # Who names a thing reads its name again in the refusal.
            told = answer.text.replace(f":{WORD}", "") if answer.status_code >= 400 else answer.text
            assert WORD not in told.lower(), (asked, answer.text)
    assert sum(seen.values()) > 12, seen
